"""The marker: what is marked with it, and what is dropped for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.bidirectional import Marker
from k2k_assets.stages import stages_of
from k2k_assets.stages.marker import marker_stage
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.headers import Headers
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_records import ListRecords

NAME = "__k2k_bidirectional"
CLUSTERS = ("a", "b", "c")


def copied(headers: list[Headers | None], marker: Marker, source: str, target: str, own: bool = True) -> Chunk:
    records = ListRecords(list(range(len(headers))), given_headers=headers)
    chunk = Chunk(TopicPartition("t", 0), records, keep_headers=own)
    return marker_stage(marker, source, target)(chunk)


def kept(chunk: Chunk) -> list[int]:
    return list(chunk.records.offsets())


@pytest.mark.parametrize(
    ("marker", "mine", "echo"),
    [(Marker(NAME, "pipeline", "p"), b"p", b"p"), (Marker(NAME, "cluster"), b"a", b"b")],
    ids=["pipeline", "cluster"],
)
def test_echoes_are_dropped_and_all_else_is_marked(marker: Marker, mine: bytes, echo: bytes) -> None:
    headers: list[Headers | None] = [
        None,
        [(NAME, echo)],
        [("another", echo), ("x", None)],
        [(NAME, b"other"), (NAME, None)],
        [(NAME, b"other"), ("x", b"1"), (NAME, echo)],  # not the last copy alone counts
        [],
    ]
    chunk = copied(headers, marker, "a", "b")
    assert kept(chunk) == [0, 2, 3, 5]
    assert chunk.dropped is not None
    assert [(r.rule, r.start, r.end) for r in chunk.dropped.ranges()] == [("marker", 1, 2), ("marker", 4, 5)]
    assert chunk.written_headers() == [[*(headers[n] or []), (NAME, mine)] for n in kept(chunk)]


def test_markers_are_carried_on_where_headers_are_not_copied() -> None:
    """Otherwise the third cluster of a ring would send a record back to the first."""
    headers: list[Headers | None] = [[("x", b"1"), (NAME, b"c"), ("y", None)], None]
    chunk = copied(headers, Marker(NAME, "cluster"), "a", "b", own=False)
    assert chunk.written_headers() == [[(NAME, b"c"), (NAME, b"a")], [(NAME, b"a")]]


def reached(marker: dict[str, Marker], links: list[tuple[str, str]], own: bool) -> dict[str, int]:
    """How often a record that was written on `a` lies on each cluster, when nothing is copied any more."""
    logs: dict[str, list[Headers]] = {cluster: [] for cluster in CLUSTERS}
    logs["a"].append([])
    done = dict.fromkeys(links, 0)
    for _ in range(10):
        for source, target in links:
            new, done[source, target] = logs[source][done[source, target] :], len(logs[source])
            if new:
                chunk = copied([*new], marker[source + target], source, target, own)
                logs[target] += [has or [] for has in (chunk.written_headers() or []) if chunk.count]
    assert all(done[link] == len(logs[link[0]]) for link in links), "records go round for ever"
    return {cluster: len(records) for cluster, records in logs.items()}


RING = [("a", "b"), ("b", "c"), ("c", "a")]
MESH = [(one, other) for one in CLUSTERS for other in CLUSTERS if one != other]
CHAIN = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]


@pytest.mark.parametrize("own", [True, False], ids=["headers kept", "headers dropped"])
@pytest.mark.parametrize(
    ("mode", "links", "wanted"),
    [
        ("cluster", RING, {"a": 1, "b": 1, "c": 1}),
        ("cluster", CHAIN, {"a": 1, "b": 1, "c": 1}),
        ("pipeline", MESH, {"a": 1, "b": 1, "c": 1}),
        ("cluster", MESH, {"a": 1, "b": 2, "c": 2}),  # over the third cluster, too
        ("pipeline", RING, {"a": 1, "b": 1, "c": 0}),  # what was copied once is never copied again
        ("pipeline", CHAIN, {"a": 1, "b": 1, "c": 0}),
    ],
)
def test_three_clusters(mode: str, links: list[tuple[str, str]], wanted: dict[str, int], own: bool) -> None:
    """How often a record reaches each cluster, by the kind of marker and the links between the clusters."""
    marker = Marker(NAME, "cluster") if mode == "cluster" else Marker(NAME, "pipeline", "p")
    assert reached({source + target: marker for source, target in links}, links, own) == wanted


def test_an_unreadable_record_may_be_an_echo_so_the_copy_stops_there(tmp_path: Path) -> None:
    records = ListRecords([1, 2, 3], given_headers=[[(NAME, b"p")], None, None], unreadable=2)
    chunk = marker_stage(Marker(NAME, "pipeline", "p"), "a", "b")(Chunk(TopicPartition("t", 0), records))
    assert (chunk.count, chunk.end, chunk.fault is not None) == (0, 2, True)


def test_without_the_target_s_id_no_stage_is_made() -> None:
    with pytest.raises(ValueError, match="id of the target cluster"):
        marker_stage(Marker(NAME, "cluster"), "a", "")


@pytest.mark.parametrize(("mode", "value"), [("pipeline", None), ("cluster", "a")])
def test_it_comes_first_and_has_its_value_from_the_file(tmp_path: Path, mode: str, value: str | None) -> None:
    features = {"bidirectionalReplication": "enabled", "tracingHeaders": {"topic": "enabled"}}
    section = {"mode": mode, "headers": {"bidirectional": "from"}}
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], features=features, bidirectional=section)
    chunk = Chunk(TopicPartition("t", 0), ListRecords([1]))
    for stage in stages_of(pipeline, "a", "b"):
        stage(chunk)
    expected: Any = [("from", (value or pipeline.name).encode()), ("__k2k_topic", b"t")]
    assert chunk.written_headers() == [expected]


@pytest.mark.parametrize(
    ("features", "sink", "partition", "policy", "is_warned"),
    [
        ("bidirectionalReplication offsetMapping", "source", "producer", None, True),
        ("bidirectionalReplication offsetMapping", {"static": "all"}, "source", None, True),
        ("bidirectionalReplication offsetMapping", "source", "source", None, False),
        ("bidirectionalReplication offsetMapping", "source", "producer", "fail", False),  # no one else writes there
        ("bidirectionalReplication", "source", "producer", None, False),
        ("offsetMapping", "source", "producer", None, False),
    ],
)
def test_who_moves_groups_is_warned_where_these_stay_unknown(
    tmp_path: Path, features: str, sink: str | dict[str, str], partition: str, policy: str | None, is_warned: bool
) -> None:
    rest: dict[str, Any] = {"errorHandling": {"onForeignWriter": policy}} if policy else {}
    on = dict.fromkeys(features.split(), "enabled")
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], features=on, sink=sink, partition=partition, **rest)
    assert any("groups there stay unknown" in warning for warning in pipeline.warnings) is is_warned
