"""Rules that leave records out and change them, on real clusters: content, mappings, kills, stops and dead letters."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

from k2k_assets.cli.main import run as k2k
from k2k_assets.cli.tool import run as k2k_tool
from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reasons.expressions import MatchTooSlow
from k2k_assets.core.stops.reasons.records import RecordRefused, TransformFailed
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import ReadRecord, Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import commit_records, copy, dying_first
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline, of_small_transactions
from k2k_assets_tests.support.copies.transformed import (
    FUNCTION,
    assert_transformed,
    mixed,
    order,
    through_dead_letters,
    through_function,
    through_rules,
    to_dead_letters,
    transforming,
    write_orders,
)

pytestmark = pytest.mark.integration

OFTEN = of_small_transactions(20)


def source_topic(clusters: KafkaSandbox, partitions: int = 1) -> str:
    return create_topic(clusters.source_servers, unique("orders"), partitions)


@MODES
def test_records_are_left_out_and_changed_and_each_offset_is_mapped(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    topic = source_topic(clusters, 2)
    _, pipeline = transforming(clusters, tmp_path, [topic], mode)
    for first in (0, 60):
        write_orders(clusters.source_servers, topic, first, 60, 2)
        assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic) > 40
    last = [r for r in commit_records(pipeline, clusters.target_servers) if r.source.partition == 1][-1]
    assert (last.records + last.dropped, last.dropped > 0) == (30, True)


def test_headers_are_looked_at_where_they_are_not_copied(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = source_topic(clusters)
    _, pipeline = transforming(clusters, tmp_path, [topic], features={"headerReplication": "disabled"}, rules=[
        {"pattern": topic, "filter": {"header": "keep", "exists": True}},
        {"pattern": "another", "filter": {"header": "never", "exists": True}},
    ])  # fmt: skip
    write_orders(clusters.source_servers, topic, 0, 30)
    assert copy(pipeline).stopped == {}

    def through(record: ReadRecord) -> ReadRecord | None:
        return record._replace(headers=[]) if "keep" in dict(record.headers) else None

    assert assert_transformed(clusters, pipeline, topic, through) == 25


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("step", ["write", "settle", "write_control", "commit"])
def test_a_copy_is_killed_amid_records_that_are_left_out(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, step: str
) -> None:
    topic = source_topic(clusters)
    _, pipeline = transforming(clusters, tmp_path, [topic], mode, **OFTEN)
    write_orders(clusters.source_servers, topic, 0, 150)
    outcome = copy(pipeline, cores=1, runner=dying_first(step, 3))
    assert (outcome.stopped, outcome.topics[topic].lag) == ({}, 0)
    assert assert_transformed(clusters, pipeline, topic, once=mode == "enabled") > 60


@MODES
def test_a_record_for_which_a_rule_fails_stops_its_topic_there_and_no_other(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    topic, other = source_topic(clusters), source_topic(clusters)
    path, pipeline = transforming(clusters, tmp_path, [topic, other], mode)
    write_orders(clusters.source_servers, topic, 0, 20)
    ((_, at),) = produce(clusters.source_servers, topic, [Record(b"k", b"no JSON")])
    write_orders(clusters.source_servers, topic, 20, 20)
    write_orders(clusters.source_servers, other, 0, 20)
    outcome = copy(pipeline)
    reason = outcome.stopped[topic][0]
    assert isinstance(reason, TransformFailed)
    assert (reason.source, reason.offset, reason.rule) == (TopicPartition(topic, 0), at, "transform[0]")
    assert "not JSON" in reason.words
    assert "no JSON" not in reason.words, "what a mask may have to hide is in no message"
    assert outcome.stopped.keys() == {topic}
    positions = [r.position for r in commit_records(pipeline, clusters.target_servers) if r.source.topic == topic]
    assert positions[-1] == at - 1, "behind the last record before it; the marker of its transaction lies between"
    assert_transformed(clusters, pipeline, other)

    path.write_text(path.read_text().replace("- pattern: .*\n", "- pattern: .*\n  onError: drop\n", 1))
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}

    def through(record: ReadRecord) -> ReadRecord | None:
        return None if record.offset == at else through_rules(record)

    assert_transformed(clusters, pipeline, topic, through)


def test_a_match_that_takes_too_long_stops_its_topic_there_and_no_other(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic, other = source_topic(clusters), source_topic(clusters)
    rule = {"pattern": ".*", "filter": {"value": "$", "matches": "(a|a)*[bc]"}, "onError": "drop"}
    pipeline = make_pipeline(tmp_path, source, target, [topic, other], transform=[rule])
    produce(source, topic, [b"aab", b"a" * 60, b"aac"])
    produce(source, other, [b"aab", b"x", b"aac"])
    outcome = copy(pipeline)
    assert outcome.stopped == {
        topic: {0: MatchTooSlow(TopicPartition(topic, 0), 1, "transform[0].filter", "(a|a)*[bc]")}
    }
    assert [record.value for record in read_all(target, topic)] == [b"aab"]
    assert [record.value for record in read_all(target, other)] == [b"aab", b"aac"]


def assert_dead_letters(clusters: KafkaSandbox, name: str, topic: str, dead: str, once: bool) -> None:
    """The topic for dead letters holds the records that fail, as they came, with the reason."""
    originals = {
        r.offset: r for r in read_all(clusters.source_servers, topic) if (r.value or b"").startswith(b"no JSON")
    }
    found = sorted(read_all(clusters.target_servers, dead), key=lambda r: r.offset)
    by_offset = {int(dict(r.headers)["__k2k_error_offset"] or b""): r for r in found}
    assert by_offset.keys() == originals.keys()
    assert not once or len(found) == len(originals)
    assert [int(dict(r.headers)["__k2k_error_offset"] or b"") for r in found][-1] == max(originals)
    for offset, letter in by_offset.items():
        original = originals[offset]
        assert (letter.key, letter.value) == (original.key, original.value)
        assert letter.headers[: len(original.headers)] == original.headers
        reason = dict(letter.headers[len(original.headers) :])
        assert reason == {
            "__k2k_error_pipeline": name.encode(),
            "__k2k_error_topic": topic.encode(),
            "__k2k_error_partition": b"0",
            "__k2k_error_offset": b"%d" % offset,
            "__k2k_error_timestamp": b"%d" % original.timestamp,
            "__k2k_error_rule": b"transform[0]",
            "__k2k_error_reason": reason["__k2k_error_reason"],
        }
        assert b"is not JSON" in (reason["__k2k_error_reason"] or b"")


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("step", [None, "write", "write_aside", "settle", "write_control", "commit"])
def test_records_that_fail_go_to_a_topic_for_dead_letters_with_their_transaction(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, step: str | None
) -> None:
    topic, dead = source_topic(clusters), unique("dead")
    _, pipeline = transforming(clusters, tmp_path, [topic], mode, to_dead_letters(dead), **OFTEN)
    produce(clusters.source_servers, topic, [mixed(n) for n in range(60)])
    outcome = copy(pipeline, cores=1, runner=dying_first(step, 2)) if step else copy(pipeline)
    assert (outcome.stopped, outcome.topics[topic].lag) == ({}, 0)
    exact = mode == "enabled"
    assert_dead_letters(clusters, pipeline.name, topic, dead, once=exact or step is None)
    assert_transformed(clusters, pipeline, topic, through_dead_letters, once=exact or step is None)


@MODES
def test_a_dead_letter_that_its_topic_does_not_take_stops_the_source_topic(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    topic, dead = source_topic(clusters), unique("dead")
    create_topic(clusters.target_servers, dead, config={"max.message.bytes": "2000"})
    _, pipeline = transforming(clusters, tmp_path, [topic], mode, to_dead_letters(dead))
    # Each of the first fits, and all of them together do not; nothing makes them smaller.
    small = [Record(b"k", b"no JSON " + os.urandom(700)) for _ in range(8)]
    produce(clusters.source_servers, topic, [order(1), *small, order(2)])
    assert copy(pipeline).stopped == {}
    ((_, at),) = produce(clusters.source_servers, topic, [Record(b"k", b"no JSON " + os.urandom(3000))])
    reason = copy(pipeline).stopped[topic][0]
    assert isinstance(reason, RecordRefused)
    assert (reason.source, reason.offset, reason.target_topic) == (TopicPartition(topic, 0), at, dead)
    assert len(read_all(clusters.target_servers, dead)) == 8


@MODES
def test_dead_letters_are_never_compacted(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    """Records without a key among them, which a compacted topic does not take."""
    topic, dead = source_topic(clusters), unique("dead")
    common = {"partitions": 1, "config": {"cleanup.policy": "compact"}}
    _, pipeline = transforming(
        clusters, tmp_path, [topic], mode, to_dead_letters(dead), topicCreation={"replication": {"common": common}}
    )
    produce(clusters.source_servers, topic, [order(1), Record(None, b"no JSON 1"), Record(None, b"no JSON 2")])
    # The copy itself is compacted, and takes no records without a key: they only go to the dead letters.
    assert copy(pipeline).stopped == {}
    assert [r.value for r in read_all(clusters.target_servers, dead)] == [b"no JSON 1", b"no JSON 2"]
    with Cluster("target", pipeline.client_properties("target", "admin")) as cluster:
        configs = cluster.topic_configs([dead, topic], only_changed=False)
    assert {name: configs[name]["cleanup.policy"] for name in (dead, topic)} == {dead: "delete", topic: "compact"}
    assert configs[dead]["retention.ms"] == "-1"


def test_a_topic_for_dead_letters_holds_no_copies(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = source_topic(clusters)
    _, pipeline = transforming(clusters, tmp_path, [topic], rules=to_dead_letters(topic))
    with pytest.raises(Refused, match="would hold copies and dead letters"):
        copy(pipeline)


def test_a_pattern_never_selects_the_topic_for_dead_letters(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """Another pipeline may have copied it back: what failed would come round again."""
    prefix = unique("orders")
    topic, dead = (create_topic(clusters.source_servers, f"{prefix}.{name}") for name in ("eu", "dead"))
    _, pipeline = transforming(clusters, tmp_path, f"{prefix}\\..*", rules=to_dead_letters(dead))
    produce(clusters.source_servers, topic, [order(1), Record(b"k", b"no JSON")])
    produce(clusters.source_servers, dead, [Record(b"k", b"no JSON, and here already")])
    outcome = copy(pipeline)
    assert outcome.stopped == {}
    assert set(outcome.topics) == {topic}
    assert [r.value for r in read_all(clusters.target_servers, dead)] == [b"no JSON"]


def test_a_missing_topic_for_dead_letters_is_told_before_anything_is_copied(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    topic, dead = source_topic(clusters), unique("dead")
    create_topic(clusters.target_servers, topic)
    off = {"autoCreateTopics": "disabled"}
    _, pipeline = transforming(clusters, tmp_path, [topic], rules=to_dead_letters(dead), features=off)
    with pytest.raises(Refused, match=f"topics for dead letters are missing.*{dead}"):
        copy(pipeline)


def function_beside(directory: Path) -> str:
    """A function of a module of its own beside the pipeline file."""
    module = unique("functions").replace("-", "_")
    (directory / f"{module}.py").write_text(FUNCTION)
    return f"{module}:large"


@MODES
def test_a_function_gets_record_batches_and_leaves_out_and_changes(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    topic = source_topic(clusters)
    rules = [{"pattern": ".*", "python": function_beside(tmp_path)}]
    _, pipeline = transforming(clusters, tmp_path, [topic], mode, rules)
    produce(clusters.source_servers, topic, [Record(b"k", b"v" * n, [("h", b"%d" % n)]) for n in range(1, 20)])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_function) == 8


@pytest.mark.slow
@pytest.mark.parametrize("step", ["write", "settle", "write_control", "commit"])
@MODES
def test_a_copy_with_a_function_is_killed(clusters: KafkaSandbox, tmp_path: Path, mode: str, step: str) -> None:
    topic = source_topic(clusters)
    rules = [{"pattern": ".*", "python": function_beside(tmp_path)}]
    _, pipeline = transforming(clusters, tmp_path, [topic], mode, rules, **OFTEN)
    produce(clusters.source_servers, topic, [Record(b"k", b"value" * (1 + n % 3) + b"%d" % n) for n in range(120)])
    outcome = copy(pipeline, cores=1, runner=dying_first(step, 3))
    assert (outcome.stopped, outcome.topics[topic].lag) == ({}, 0)
    assert_transformed(clusters, pipeline, topic, through_function, once=mode == "enabled")


def test_a_function_that_raises_stops_the_topic_at_the_record(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = source_topic(clusters)
    _, pipeline = transforming(
        clusters, tmp_path, [topic], rules=[{"pattern": ".*", "python": function_beside(tmp_path)}]
    )
    values = [b"value number %d" % n for n in range(50)]
    values[31] = b"broken"
    written = produce(clusters.source_servers, topic, [Record(b"k", value) for value in values])
    reason = copy(pipeline).stopped[topic][0]
    assert isinstance(reason, TransformFailed)
    assert (reason.offset, reason.rule, reason.words) == (written[31][1], "transform[0]", "KeyError: 'country'")
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [value.upper() for value in values[:31]]


def test_a_key_and_headers_are_masked_and_fields_dropped(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = source_topic(clusters)
    rules = [{"pattern": ".*", "mask": [{"header": "user", "with": "?"}], "drop": [{"key": "id"}]}]
    _, pipeline = transforming(clusters, tmp_path, [topic], rules=rules)
    produce(clusters.source_servers, topic, [Record(b'{"id": 1, "of": 2}', b"v", [("user", b"ann"), ("user", None)])])
    assert copy(pipeline).stopped == {}
    (record,) = read_all(clusters.target_servers, topic)
    assert (record.key, record.headers) == (b'{"of":2}', [("user", b"?"), ("user", None)])


def test_a_masked_key_decides_where_the_producer_puts_a_record(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """The order of the stages: rules come before routing, and before headers are added or dropped."""
    topic = source_topic(clusters, 2)
    rules = [{
        "pattern": ".*", "filter": {"header": "__k2k_pipeline", "exists": False},
        "mask": [{"key": "$", "with": "one"}], "drop": [{"header": "debug"}],
    }]  # fmt: skip
    features = {"tracingHeaders": {"offset": "enabled", "pipeline": "enabled"}, "bidirectionalReplication": "enabled"}
    _, pipeline = transforming(clusters, tmp_path, [topic], rules=rules, partition="producer", features=features)
    write_orders(clusters.source_servers, topic, 0, 20, 2)
    echo = ("__k2k_bidirectional", pipeline.name.encode())
    produce(clusters.source_servers, topic, [Record(b"k", b"echo", [echo])], 0)
    assert copy(pipeline).stopped == {}
    found = read_all(clusters.target_servers, topic)
    assert {r.key for r in found} == {b"one"}
    assert len({r.partition for r in found}) == 1
    assert len(found) == 20
    for record in found:
        names = [name for name, _ in record.headers]
        assert names[-3:] == ["__k2k_bidirectional", "__k2k_offset", "__k2k_pipeline"]
        assert "debug" not in names


PAGE = Path(__file__).parents[3] / "docs" / "transform.md"


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_example_of_the_page_does_what_it_says_and_its_commands_run(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = unique("orders")
    page = re.sub(r"orders(?=\.|\\\\)", prefix, PAGE.read_text())
    topic = create_topic(clusters.source_servers, f"{prefix}.eu")
    rules = yaml.safe_load(blocks("yaml", page)[0])["transform"]
    path, pipeline = transforming(clusters, tmp_path, [topic], rules=rules)
    value = b'{"customer":{"country":"%s","email":"a@b","id":7,"notes":"n"}}'
    produce(clusters.source_servers, topic, [
        Record(b"0", value % b"FR", [("debug", b"1")]),
        Record(b"1", value % b"AT", [("country", b"AT"), ("debug", b"1")]),
        Record(b"2", b"no JSON", []),
        Record(b"3", value % b"DE"),
        *[Record(b"k", value % b"US")] * 200,
    ])  # fmt: skip
    assert copy(pipeline).stopped == {}
    hashed = b'{"customer":{"country":"%s","email":"***","id":"' + hashlib.sha256(b"7").hexdigest().encode() + b'"}}'
    assert [(r.key, r.value, r.headers) for r in read_all(clusters.target_servers, topic)] == [
        (b"1", hashed % b"AT", [("country", b"AT")]),
        (b"3", hashed % b"DE", []),
    ]
    assert [r.key for r in read_all(clusters.target_servers, f"{prefix}.dead")] == [b"2"]

    path.rename(tmp_path / f"{prefix}.yaml")
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line) for block in blocks("sh", page) for line in block.splitlines()]
    assert [words[:2] for words in commands] == [
        ["k2k", "validate"], ["k2k", "acls"], ["k2k-tool", "translate"], ["k2k-tool", "show"],
    ]  # fmt: skip
    said = []
    for program, *words in commands:
        assert {"k2k": k2k, "k2k-tool": k2k_tool}[program](words) == 0
        said.append(capsys.readouterr().out)
    assert "records left out or changed by 1 rule of transform" in said[0]
    assert f"{prefix}.dead" in said[1]
    assert "transform[0].filter" in said[2]
    assert "transform[0].filter" in said[3]


def test_the_function_of_the_page(clusters: KafkaSandbox, tmp_path: Path) -> None:
    page, topic = PAGE.read_text(), create_topic(clusters.source_servers, unique("payments"))
    module = unique("my_rules").replace("-", "_")
    (tmp_path / f"{module}.py").write_text(blocks("python", page)[0])
    (rule,) = yaml.safe_load(blocks("yaml", page)[2])["transform"]
    rule = {"pattern": topic, "python": rule["python"].replace("my_rules", module)}
    _, pipeline = transforming(clusters, tmp_path, [topic], rules=[rule])
    produce(clusters.source_servers, topic, [Record(b"k", b"v" * size) for size in (100, 101, 5, 200)])
    assert copy(pipeline).stopped == {}
    assert [len(r.value or b"") for r in read_all(clusters.target_servers, topic)] == [101, 200]
