"""Several pairs of stages in one pipeline: each topic has the routing of the pair that selects it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.cli.commands.validate import effective
from k2k_assets.core.errors import Refused
from k2k_assets.permissions.names import NamePattern
from k2k_assets.permissions.subjects import patterns
from k2k_assets.pipeline import Pipeline
from k2k_assets_tests.pipeline.files import changed, load_text, refusal


def stages(*pairs: tuple[object, object], **sink: object) -> dict[str, Any]:
    """Of selections and sink topics; a selection that is no mapping is its `topic`."""
    found: list[object] = []
    for selection, topic in pairs:
        found.append({"source": selection if isinstance(selection, dict) else {"topic": selection}})
        found.append({"sink": {"topic": topic, "partition": "source", **sink}})
    return {"replication": found}


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    pairs = stages(
        ({"topic": r"eu\..*", "exclude": ["eu.tests"]}, {"prefix": "copy."}),
        (["us.orders", "us.payments"], {"staticMapping": {"us.orders": "o", "us.payments": "p"}}),
        ("asia.*", {"static": "asia"}),
    )
    return load_text(tmp_path, changed(pairs))


def test_each_topic_is_routed_by_the_pair_that_selects_it(pipeline: Pipeline) -> None:
    topics = ("eu.a", "us.orders", "us.payments", "asia1")
    assert [pipeline.selection.matches(topic) for topic in (*topics, "eu.tests", "us.x")] == [True] * 4 + [False] * 2
    assert [pipeline.routing.target_topic(topic) for topic in topics] == ["copy.eu.a", "o", "p", "asia"]
    assert pipeline.routing.target_if_any("us.x") is None
    with pytest.raises(Refused, match=r"no source of the pipeline selects the topic 'us\.x'"):
        pipeline.routing.target_topic("us.x")
    assert pipeline.selection.literal is None
    assert pipeline.selection.pattern == r"(?:eu\..*)|(?:us\.orders|us\.payments)|(?:asia.*)"


def test_it_is_shown_sent_and_granted_pair_by_pair(pipeline: Pipeline) -> None:
    shown = [line for line in effective(pipeline) if line[0] in ("copies", "to")]
    assert shown == [
        ("copies", r"topics that match 'eu\..*', but not eu.tests"),
        ("to", "topics named copy.<source topic>; the same partition"),
        ("copies", "the topics us.orders, us.payments"),
        ("to", "us.orders -> o, us.payments -> p; the same partition"),
        ("copies", "topics that match 'asia.*'"),
        ("to", "the topic asia; the same partition"),
    ]
    sent = pickle.loads(pickle.dumps(pipeline))
    assert (sent.routing, sent.selection) == (pipeline.routing, pipeline.selection)
    assert patterns(pipeline, "copied topics") == [
        NamePattern("eu.", prefixed=True), NamePattern("us.orders"), NamePattern("us.payments"),
        NamePattern("asia", prefixed=True),
    ]  # fmt: skip
    assert patterns(pipeline, "target topics") == [
        NamePattern("copy.eu.", prefixed=True), NamePattern("o"), NamePattern("p"), NamePattern("asia"),
    ]  # fmt: skip


def test_pairs_of_lists_are_one_list(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, changed(stages((["a"], "source"), (["b", "c"], {"prefix": "x."}))))
    assert (pipeline.selection.literal, pipeline.selection.pattern) == (("a", "b", "c"), None)
    assert [pipeline.routing.target_topic(topic) for topic in "abc"] == ["a", "x.b", "x.c"]


def test_the_code_version_follows_each_pair_and_is_that_of_old_for_one(tmp_path: Path) -> None:
    one, two, other = (
        load_text(tmp_path, changed(stages(*pairs))).code_version
        for pairs in (
            [("a", "source")],
            [("a", "source"), ("b", "source")],
            [("a", "source"), ("b", {"prefix": "x"})],
        )
    )
    assert len({one, two, other}) == 3
    assert one == load_text(tmp_path, changed({"replication/0/source/topic": "a"})).code_version


def test_each_topic_begins_where_its_pair_says(tmp_path: Path) -> None:
    pairs = [
        ({"topic": "a.*", "start": "latest"}, "source"), ({"topic": ["b"], "start": {"b": {2: 3}}}, "source"),
        ({"topic": "c", "start": 1_700_000_000_000}, "source"), ("d", "source"),
    ]  # fmt: skip
    pipeline = load_text(tmp_path, changed(stages(*pairs)))
    topics = ("a1", "b", "c", "d")
    assert [pipeline.start_of(topic) for topic in topics] == ["latest", {"b": {2: 3}}, 1_700_000_000_000, None]
    assert [pipeline.start_from(topic) for topic in topics] == ["latest", "given", "given", "earliest"]
    assert [text for title, text in effective(pipeline) if title == "begins"] == [
        f"{where}, where there is no position yet" for where in ("latest", "b-2 at 3", "2023-11-14T22:13:20.000Z")
    ]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(["a", "b"], "source"), (["c", "b"], "source")], "replication[2].source.topic[1]: 'b' is selected twice: by"),
        ([(["a", "b"], "source"), ("b.*", "source")], "replication[0].source.topic[1]: 'b' is selected twice: by"),
        ([("b.*", "source"), (["a", "b"], "source")], "replication[2].source.topic[1]: 'b' is selected twice: by"),
        ([("a", "source"), (["b"], {"staticMapping": {"x": "y"}})], "replication[2].source.topic[0]: replication.sink"),
        (
            [("a", "source"), ({"topic": "b", "start": {"a": {0: 1}}}, "source")],
            "replication[2].source.start.a: expected a topic that is selected",
        ),
    ],
)
def test_what_pairs_must_not_be(tmp_path: Path, pairs: Any, message: str) -> None:
    said = refusal(tmp_path, changed(stages(*pairs)))
    assert message in said
    assert "faults" not in said


def test_each_pair_has_its_own_partition(tmp_path: Path) -> None:
    document = stages(("a", "source"), ("b.*", "source"))
    one = load_text(tmp_path, changed(document))
    document["replication"][3]["sink"]["partition"] = "producer"
    two = load_text(tmp_path, changed(document))
    assert [two.routing.keeps_partition(topic) for topic in ("a", "b1")] == [True, False]
    assert (one.routing.keeps_partitions, two.routing.keeps_partitions) == (True, False)
    assert one.code_version != two.code_version
    assert [text.partition("; ")[2] for title, text in effective(two) if title == "to"] == [
        "the same partition", "the partition of the key",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "kinds", [["source", "source", "sink", "sink"], ["source", "sink", "source"], ["sink", "source"]]
)
def test_stages_come_in_pairs(tmp_path: Path, kinds: list[str]) -> None:
    of = {"source": {"topic": "a"}, "sink": {"topic": "source", "partition": "source"}}
    said = refusal(tmp_path, changed({"replication": [{kind: of[kind]} for kind in kinds]}))
    assert f"in one pair or several; found {', '.join(kinds)}" in said
