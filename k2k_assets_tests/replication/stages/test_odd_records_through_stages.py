"""Odd records through all stages that look into records, and functions of users that behave badly, on real clusters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.stops.reasons.records import TransformFailed
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.replication.stages.test_fidelity import ANY_TIME, CODECS, ODD_RECORDS, write_compressed
from k2k_assets_tests.support.brokers.kafka import ReadRecord, Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import commit_records, copy, dying_first
from k2k_assets_tests.support.copies.pipelines import MODES, NEVER_TIMED_OUT
from k2k_assets_tests.support.copies.transformed import assert_transformed, transforming

pytestmark = pytest.mark.integration

_FUNCTIONS = """
import pyarrow as pa


def same(records):
    return records


def reversed_headers(records):
    # All columns anew, with the headers of each record in the opposite order.
    rows = records.to_pylist()
    for row in rows:
        row["headers"] = row["headers"] and row["headers"][::-1]
    return pa.RecordBatch.from_pylist(rows, schema=records.schema)


def leaves(records):
    if b"leave" in records.column("value").to_pylist():
        raise SystemExit(7)
    return records


def speaks_bytes(records):
    for value in records.column("value").to_pylist():
        if value and value.startswith(b"caf"):
            raise ValueError(value.decode(errors="surrogateescape"))
    return records


def prints(records):
    print("a function that prints", flush=True)
    return records
"""
LEFT_OUT = ("left-out", b"yes")
FEATURES = {"bidirectionalReplication": "enabled", "tracingHeaders": "enabled"}


def functions(directory: Path) -> str:
    module = unique("badly").replace("-", "_")
    (directory / f"{module}.py").write_text(_FUNCTIONS)
    return module


def odd_topic(servers: str) -> str:
    """Odd and large records, each codec, aborted transactions, and whole transactions that a filter leaves out."""
    topic = create_topic(servers, unique("odd"), 1, {**ANY_TIME, "max.message.bytes": "3000000"})
    produce(servers, topic, ODD_RECORDS, 0)
    produce(servers, topic, [b"never committed"] * 5, 0, abort=True)
    produce(servers, topic, [Record(b"k", b"v", [LEFT_OUT])] * 30, 0, unique("tx"))
    produce(servers, topic, ODD_RECORDS[::-1], 0, unique("tx"))
    produce(servers, topic, [Record(b"large", os.urandom(1_000_000)) for _ in range(4)], 0)
    for codec in CODECS:
        packed = [(b"%d" % i, f"{codec}-{i}-".encode() * 20) for i in range(40)]
        write_compressed(servers, topic, codec, packed)
    # The last that the log holds: nothing of it is copied, and the position has to pass it.
    produce(servers, topic, [Record(None, None, [LEFT_OUT])] * 30, 0, unique("tx"))
    return topic


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("step", [None, "write", "settle", "write_control", "commit"])
def test_odd_records_stay_what_they_are(clusters: KafkaSandbox, tmp_path: Path, mode: str, step: str | None) -> None:
    topic, module = odd_topic(clusters.source_servers), functions(tmp_path)
    rules: list[dict[str, Any]] = [
        {"pattern": ".*", "filter": {"not": {"header": LEFT_OUT[0], "equals": "yes"}}},
        {"pattern": ".*", "python": f"{module}:same"},
        {"pattern": ".*", "python": f"{module}:reversed_headers"},
    ]
    often: dict[str, Any] = {
        "coordination": {"commit": {"batchSize": 20, "syncTimeout": "11 minutes"}}, "producer": NEVER_TIMED_OUT,
    }  # fmt: skip
    _, pipeline = transforming(clusters, tmp_path, [topic], mode, rules, features=FEATURES, **often)
    outcome = copy(pipeline, cores=1, runner=dying_first(step, 3)) if step else copy(pipeline)
    assert (outcome.stopped, outcome.topics[topic].lag) == ({}, 0)

    def through(record: ReadRecord) -> ReadRecord | None:
        added = [
            ("__k2k_bidirectional", pipeline.name.encode()),
            ("__k2k_partition", b"0"),
            ("__k2k_offset", b"%d" % record.offset),
            ("__k2k_topic", topic.encode()),
            ("__k2k_pipeline", pipeline.name.encode()),
        ]
        return None if LEFT_OUT in record.headers else record._replace(headers=[*record.headers[::-1], *added])

    assert assert_transformed(clusters, pipeline, topic, through, once=mode == "enabled" or step is None) == 60
    newest = max(commit_records(pipeline, clusters.target_servers), key=lambda record: record.order)
    assert newest.position > read_all(clusters.source_servers, topic)[-1].offset


@MODES
@pytest.mark.parametrize(
    ("function", "value", "said"),
    [
        ("leaves", b"leave", "SystemExit: 7"),
        ("speaks_bytes", b"caf\xe9", "ValueError: caf\\udce9"),
    ],
)
def test_whatever_a_function_raises_stops_its_topic_at_the_record(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, function: str, value: bytes, said: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("badly"))
    rules = [{"pattern": ".*", "python": f"{functions(tmp_path)}:{function}"}]
    _, pipeline = transforming(clusters, tmp_path, [topic], mode, rules)
    written = produce(clusters.source_servers, topic, [b"a", b"b", value, b"c"])
    reason = copy(pipeline).stopped[topic][0]
    assert isinstance(reason, TransformFailed)
    assert (reason.offset, reason.words) == (written[2][1], said)
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"a", b"b"]
    newest = [r for r in commit_records(pipeline, clusters.target_servers) if r.reason is not None][-1]
    assert newest.reason == reason, "the commit topic can hold it"


@MODES
def test_json_with_a_text_that_is_not_utf_8_stops_its_topic_at_the_record(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    topic, other = (create_topic(clusters.source_servers, unique(name)) for name in ("latin", "other"))
    _, pipeline = transforming(
        clusters, tmp_path, [topic, other], mode, [{"pattern": topic, "mask": [{"value": "a", "with": "***"}]}]
    )
    written = produce(clusters.source_servers, topic, [b'{"a":1}', b'{"name":"caf\xe9","a":1}', b'{"a":3}'])
    produce(clusters.source_servers, other, [b"copied"])
    outcome = copy(pipeline)
    reason = outcome.stopped[topic][0]
    assert isinstance(reason, TransformFailed)
    assert outcome.stopped.keys() == {topic}
    assert reason.offset == written[1][1]
    assert reason.words == "its value has no fields: it is not JSON (a text in it is not UTF-8)"
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b'{"a":"***"}']


@MODES
def test_an_error_that_quotes_bytes_becomes_a_dead_letter(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    topic, dead = create_topic(clusters.source_servers, unique("badly")), unique("dead")
    rules = [
        {
            "pattern": ".*", "python": f"{functions(tmp_path)}:speaks_bytes", "onError": "deadLetter",
            "deadLetters": dead,
        }
    ]  # fmt: skip
    _, pipeline = transforming(clusters, tmp_path, [topic], mode, rules)
    produce(clusters.source_servers, topic, [b"a", b"caf\xe9", b"c"])
    assert copy(pipeline).stopped == {}
    (letter,) = read_all(clusters.target_servers, dead)
    assert (letter.value, dict(letter.headers)["__k2k_error_reason"]) == (b"caf\xe9", b"ValueError: caf\\udce9")
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"a", b"c"]
