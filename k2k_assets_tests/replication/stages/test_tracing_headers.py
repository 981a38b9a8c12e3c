"""Tracing headers on real clusters: behind the record's own, true for each record, whatever is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import Headers, ReadRecord, Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, copy, dying_first
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline, of_small_transactions

pytestmark = pytest.mark.integration

NAMES = ("__k2k_partition", "__k2k_offset", "__k2k_topic", "__k2k_pipeline")
ODD_HEADERS: list[Headers | None] = [
    None,
    [],
    [("a", b"1"), ("b", None), ("a", b"1"), ("a", b"")],
    [("ключ", b"\xff\x00"), ("🦀", None), ("", b"no name"), ("", None)],
    # As of a copy of a copy: those of the last copy stand last.
    [("__k2k_offset", b"7"), ("__k2k_topic", None), ("__k2k_offset", b"8")],
    [(f"h{n}", b"x" * n) for n in range(60)],
]


def pipeline_for(clusters: KafkaSandbox, directory: Path, topic: str, mode: str, **rest: Any) -> Pipeline:
    features = {
        "exactlyOnce": mode,
        "offsetMapping": "enabled",
        "headerReplication": "enabled",
        "tracingHeaders": "enabled",
        **rest.pop("features", {}),
    }
    return make_pipeline(
        directory, clusters.source_servers, clusters.target_servers, [topic], features=features, **rest
    )


def traced(record: ReadRecord, pipeline: Pipeline, own: bool = True) -> tuple[object, ...]:
    """What the copy of a source record has to be, but for its place."""
    values = (str(record.partition), str(record.offset), record.topic, pipeline.name)
    headers = [*(record.headers if own else []), *zip(NAMES, (value.encode() for value in values), strict=True)]
    return record.key, record.value, headers, record.timestamp


@pytest.mark.parametrize("own", ["enabled", "disabled"])
@MODES
def test_odd_headers_keep_order_and_duplicates_and_the_added_ones_come_last(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, own: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("odd"), 2)
    for partition in range(2):
        produce(clusters.source_servers, topic, [b"aborted"] * 3, partition, abort=True)
        produce(
            clusters.source_servers, topic, [Record(b"k", b"%d" % n, h) for n, h in enumerate(ODD_HEADERS)], partition
        )
    pipeline = pipeline_for(clusters, tmp_path, topic, mode, features={"headerReplication": own})

    assert copy(pipeline).stopped == {}

    wanted = [traced(record, pipeline, own == "enabled") for record in read_all(clusters.source_servers, topic)]
    assert [record.content for record in read_all(clusters.target_servers, topic)] == wanted
    assert len(wanted) == 12


@pytest.mark.parametrize(
    "names", [{"offset": "смещение", "partition": "from"}, {"pipeline": "смещение", "topic": "from"}], ids=" ".join
)
def test_one_by_one_under_names_of_ones_own_from_several_partitions_into_one(
    clusters: KafkaSandbox, tmp_path: Path, names: dict[str, str]
) -> None:
    topic = create_topic(clusters.source_servers, unique("many"), 3)
    for partition in range(3):
        produce(clusters.source_servers, topic, [b"%d-%d" % (partition, n) for n in range(50)], partition)
    target = create_topic(clusters.target_servers, unique("one"))
    pipeline = pipeline_for(
        clusters,
        tmp_path,
        topic,
        "enabled",
        features={"tracingHeaders": dict.fromkeys(names, "enabled")},
        tracing={"headers": names},
        sink={"static": target},
        partition="producer",
    )

    assert copy(pipeline).stopped == {}

    wanted = {}
    for record in read_all(clusters.source_servers, topic):
        values = {"partition": record.partition, "offset": record.offset, "topic": topic, "pipeline": pipeline.name}
        wanted[record.value] = [(names[key], str(values[key]).encode()) for key in values if key in names]
    assert {record.value: record.headers for record in read_all(clusters.target_servers, target)} == wanted
    assert len(wanted) == 150


@pytest.mark.slow
@MODES
@pytest.mark.parametrize(("step", "occurrence"), [("write", 2), ("settle", 2), ("commit", 3)])
def test_killed_and_run_again(clusters: KafkaSandbox, tmp_path: Path, mode: str, step: str, occurrence: int) -> None:
    """Each record says where it came from, also the second copies of at-least-once."""
    topic = create_topic(clusters.source_servers, unique("orders"))
    records = [Record(b"%d" % n, b"v%d" % n, ODD_HEADERS[n % len(ODD_HEADERS)]) for n in range(300)]
    produce(clusters.source_servers, topic, records)
    pipeline = pipeline_for(
        clusters,
        tmp_path,
        topic,
        mode,
        **of_small_transactions(50),
    )

    outcome = copy(pipeline, cores=1, runner=dying_first(step, occurrence))

    assert outcome.topics[topic].lag == 0
    wanted = {record.key: traced(record, pipeline) for record in read_all(clusters.source_servers, topic)}
    copied = read_all(clusters.target_servers, topic)
    assert [record.content for record in copied] == [wanted[record.key] for record in copied]
    assert list(dict.fromkeys(record.key for record in copied)) == list(wanted)
    if mode == "enabled":
        assert len(copied) == 300
    assert_exact_mappings(
        pipeline, clusters.source_servers, clusters.target_servers, topic, lambda record: (record.key, record.value)
    )


def test_there_and_back_a_record_tells_both_of_its_ways(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    produce(clusters.source_servers, topic, [Record(b"%d" % n, b"v", [("a", None)]) for n in range(20)])
    forth = pipeline_for(clusters, tmp_path, topic, "enabled", sink={"prefix": "copy."})
    copy(forth)
    back = make_pipeline(
        tmp_path,
        clusters.target_servers,
        clusters.source_servers,
        [f"copy.{topic}"],
        features={"exactlyOnce": "enabled", "headerReplication": "enabled", "tracingHeaders": "enabled"},
        sink={"prefix": "back."},
    )
    copy(back)
    returned = read_all(clusters.source_servers, f"back.copy.{topic}")
    copies = read_all(clusters.target_servers, f"copy.{topic}")
    assert [record.content for record in returned] == [traced(record, back) for record in copies]
    originals = read_all(clusters.source_servers, topic)
    assert [record.headers[:5] for record in returned] == [traced(record, forth)[2] for record in originals]
