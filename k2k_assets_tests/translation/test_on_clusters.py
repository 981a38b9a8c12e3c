"""Translation of a real copy: each answer is compared with the records, at every offset.

The Python function, the checkpoint, `k2k-tool` and the DataFrame function, on one copy each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from k2k_assets.cli import tool
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation import OffsetTranslator, TranslatedOffset, translate_checkpoint, translate_frame, translator
from k2k_assets.translation import frame as frame_module
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.kafka import ReadRecord, Record, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.spark]

_HOUR = 3_600_000
# So long ago that no marker is older than a record, and not so long that retention would take the records.
_BEGAN = (int(time.time()) // 3600 - 60) * _HOUR
# A port without a listener.
_NOBODY = "127.0.0.1:1"


def _fill(servers: str, topic: str, partitions: int = 2) -> None:
    """Records an hour apart, with markers, aborted records and, in the last partition, a deleted prefix."""
    number = 0
    for p in range(partitions):
        for _ in range(3):
            records = [Record(b"k%d" % n, b"%d" % n, None, _BEGAN + n * _HOUR, p) for n in range(number, number + 4)]
            kafka.produce(servers, topic, records[:3], transactional_id=unique("fill"))
            kafka.produce(servers, topic, [b"never"] * 2, partition=p, abort=True)
            kafka.produce(servers, topic, records[3:])
            number += 4
    kafka.delete_records(servers, topic, partitions - 1, 2)


def _pipeline(clusters: KafkaSandbox, directory: Path, topic: str, **rest: Any) -> Path:
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    servers = clusters.source_servers, clusters.target_servers
    return write_pipeline(directory, *servers, [topic], features=features, index={"path": f"{directory}/i"}, **rest)


def _records(servers: str, topic: str, partition: int) -> list[ReadRecord]:
    return kafka.read_all(servers, topic, partition)


def _values(records: list[ReadRecord], start: int, end: int | None = None) -> list[bytes | None]:
    return [r.value for r in records if r.offset >= start and (end is None or r.offset < end)]


def _tool(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = tool.run(["translate", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.slow
def test_one_to_one(
    clusters: KafkaSandbox,
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All ways to ask for a translation give the answers that the records prove, at every offset, both ways."""
    topic = kafka.create_topic(clusters.source_servers, unique("orders"), 2)
    _fill(clusters.source_servers, topic)
    path = _pipeline(clusters, tmp_path, topic, sink={"prefix": "copy."})
    pipeline = load_pipeline([path])
    copy(pipeline)
    copied = f"copy.{topic}"
    with OffsetTranslator.open(path) as translator:
        there = list(_nothing_skipped_nothing_read_again(translator, topic, copied))
        back = list(_back_again(translator, topic, copied))
        with pytest.raises(Refused, match=f"'{copied}' has no mappings .* Topics that have: '{topic}'"):
            translator.translate(copied, 0, [1])
        with pytest.raises(Refused, match=f"Topics that have: '{copied}'"):
            translator.translate_back(topic, 0, [1])
        assert translator.translate(topic, 7, [1])[0].state == "not replicated"
    source = {p: _records(clusters.source_servers, topic, p) for p in range(2)}
    _the_tool(capsys, path, topic, there)
    _a_checkpoint(capsys, path, topic, there, source, tmp_path / "17")
    _a_frame(spark, pipeline, there, back, monkeypatch)
    _without_the_source(pipeline, path, tmp_path, there, monkeypatch)
    _ahead_of_the_copy(clusters, path, topic)


def _ahead_of_the_copy(clusters: KafkaSandbox, path: Path, topic: str) -> None:
    ((_, end),) = kafka.produce(clusters.source_servers, topic, [b"later"] * 3, 0)[-1:]
    copied = _records(clusters.target_servers, f"copy.{topic}", 0)
    with OffsetTranslator.open(path) as translator:
        (ahead,) = translator.translate(topic, 0, [end + 1])
        assert (ahead.state, ahead.to_offset) == ("ahead", copied[-1].offset + 1)
        (beyond,) = translator.translate(topic, 0, [end + 9])
        assert beyond.state == "unknown"
    for offset, is_complete in ((end + 1, True), (end + 9, False)):
        assert translate_checkpoint(path, {TopicPartition(topic, 0): offset}).complete == is_complete


def _nothing_skipped_nothing_read_again(
    translator: OffsetTranslator, topic: str, copied: str
) -> Iterator[TranslatedOffset]:
    for p in range(2):
        source = _records(translator.source.servers, topic, p)
        target = _records(translator.target.servers, copied, p)
        assert len(source) == len(target) >= 10
        end = translator.source.offsets([TopicPartition(topic, p)], "latest")[TopicPartition(topic, p)]
        for answer in translator.translate(topic, p, range(end + 1)):
            assert (answer.to_topic, answer.to_partition, answer.state) == (copied, p, "exact")
            assert _values(target, answer.to_offset or 0) == _values(source, answer.offset)
            yield answer
        beyond = translator.translate(topic, p, [end + 9])[0]
        assert (beyond.state, beyond.to_offset) == ("unknown", None), "it is of a log that is no more"


def _back_again(translator: OffsetTranslator, topic: str, copied: str) -> Iterator[TranslatedOffset]:
    for p in range(2):
        source = _records(translator.source.servers, topic, p)
        target = _records(translator.target.servers, copied, p)
        end = translator.cut.stable[TopicPartition(copied, p)]
        for answer in translator.translate_back(copied, p, range(end + 1)):
            assert (answer.to_topic, answer.to_partition, answer.state) == (topic, p, "exact")
            assert _values(source, answer.to_offset or 0) == _values(target, answer.offset)
            yield answer


def _the_tool(
    capsys: pytest.CaptureFixture[str],
    path: Path,
    topic: str,
    there: list[TranslatedOffset],
) -> None:
    asked = there[5]
    place = ("-f", path, "--topic", topic, "--partition", 0)
    code, said, _ = _tool(capsys, *place, "--offset", asked.offset)
    assert (code, said.split()) == (0, f"{topic}-0 at 5 -> copy.{topic}-0 at {asked.to_offset} exact".split())
    code, said, _ = _tool(capsys, *place, "--offset", asked.offset, "--json")
    answer = {"targetTopic": f"copy.{topic}", "targetPartition": 0, "targetOffset": asked.to_offset, "state": "exact"}
    assert json.loads(said) == {"topic": topic, "partition": 0, "offset": 5, "answers": [answer]}
    at = datetime.fromtimestamp((_BEGAN + _HOUR) / 1000, UTC)
    for text in (_BEGAN + _HOUR, at.isoformat(), at.replace(tzinfo=None).isoformat()):
        code, said, _ = _tool(capsys, *place, "--timestamp", text, "--json")
        found = json.loads(said)
        assert (found["offset"], found["timestamp"]) == (1, _BEGAN + _HOUR)
        assert found["answers"][0]["targetOffset"] == there[1].to_offset
    code, said, _ = _tool(capsys, *place, "--timestamp", "2100-01-01")
    end = max(row.offset for row in there if row.partition == 0)
    assert said.startswith(f"{topic}-0 at {end}, first record from 2100-01-01T00:00:00.000Z on\n")
    code, _, wrong = _tool(capsys, "-f", path, "--topic", topic, "--partition", 9, "--offset", 3)
    assert code == 3
    assert f"{topic}-9 at 3 has no answer" in wrong


def _a_checkpoint(
    capsys: pytest.CaptureFixture[str],
    path: Path,
    topic: str,
    there: list[TranslatedOffset],
    source: dict[int, list[ReadRecord]],
    file: Path,
) -> None:
    answers = {(row.partition, row.offset): row.to_offset for row in there}
    file.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"{topic}":{{"0":7,"1":9}}}}')
    code, said, _ = _tool(capsys, "-f", path, "--checkpoint", file, "--json")
    wanted = {f"copy.{topic}": {"0": answers[0, 7], "1": answers[1, 9]}}
    assert (code, json.loads(said)) == (0, wanted)
    # A partition without a position is unread.
    found = translate_checkpoint(path, {TopicPartition(topic, 0): 7})
    assert json.loads(found.spark_json())[f"copy.{topic}"] == {"0": answers[0, 7], "1": answers[1, 0]}
    assert [row.state for row in found.partitions] == ["exact", "exact"]
    file.write_text(json.dumps(wanted))
    code, said, _ = _tool(capsys, "-f", path, "--checkpoint", file, "--reverse")
    position = json.loads(said.splitlines()[-1])[topic]
    for p, offset in (("0", 7), ("1", 9)):
        servers = str(load_pipeline([path]).client_properties("source", "admin")["bootstrap.servers"])
        records = _records(servers, topic, int(p))
        assert _values(records, position[p]) == _values(records, offset)
    with pytest.raises(Refused, match="no topic at all"):
        translate_checkpoint(path, {})
    file.write_text(f'{{"{topic}":{{"0":7,"9":3}}}}')
    code, said, wrong = _tool(capsys, "-f", path, "--checkpoint", file, "--json")
    assert (code, said) == (3, "")
    assert f"no answer for copy.{topic}-9 (not replicated)" in wrong


def _a_frame(
    spark: SparkSession,
    pipeline: Pipeline,
    there: list[TranslatedOffset],
    back: list[TranslatedOffset],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with both_clusters(pipeline) as (source, target):
        update_index(spark, pipeline, source, target)
    for reverse, rows in ((False, there), (True, back)):
        # Behind the last record only a cut tells that nothing is missing.
        rows = [row for row in rows if not (reverse and row.offset == max(r.offset for r in rows if r[:2] == row[:2]))]
        frame = spark.createDataFrame([row[:3] for row in rows], "topic string, partition int, offset long")
        # Once as with an index that is larger than a task's memory for it.
        monkeypatch.setattr(frame_module, "MOST_RUNS", 0 if reverse else 1_000_000)
        answers = [tuple(row) for row in translate_frame(frame, pipeline, reverse=reverse).collect()]
        assert sorted(answers) == sorted(row[:7] for row in rows)
    with pytest.raises(Refused, match="column 'offset' is no whole number; column 'topic' is no string"):
        translate_frame(spark.createDataFrame([(1, 1, "x")], "topic int, partition int, offset string"), pipeline)
    with pytest.raises(Refused, match="column 'partition' is missing; column 'state' is there already"):
        translate_frame(spark.createDataFrame([("a", 1, 1)], "topic string, offset long, state int"), pipeline)


@contextmanager
def _expecting_little_of_the_source(pipeline: Pipeline, timeout: float) -> Iterator[tuple[Cluster, Cluster]]:
    with both_clusters(pipeline, timeout) as (source, target):
        source.timeout = 1.0
        yield source, target


def _without_the_source(
    pipeline: Pipeline,
    path: Path,
    directory: Path,
    there: list[TranslatedOffset],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a disaster: the index says what the source was."""
    monkeypatch.setattr(translator, "both_clusters", _expecting_little_of_the_source)
    text = path.read_text().replace(str(pipeline.client_properties("source", "admin")["bootstrap.servers"]), _NOBODY)
    lonely = directory / "lonely.yaml"
    lonely.write_text(text)
    asked = there[5]
    with OffsetTranslator.open(lonely) as opened:
        assert opened.translate(*asked[:2], [asked.offset]) == [asked]
        with pytest.raises(ClusterUnreachable):
            opened.offset_at(*asked[:2], _BEGAN)
    nowhere = directory / "nowhere.yaml"
    nowhere.write_text(text.replace(f"{directory}/i", f"{directory}/none"))
    with pytest.raises(ClusterUnreachable, match="nothing else says what its id is"), OffsetTranslator.open(nowhere):
        pass


def test_by_key(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """Two source partitions in three target partitions: a checkpoint skips nothing, and reads little again."""
    topic = kafka.create_topic(clusters.source_servers, unique("keys"), 2)
    kafka.create_topic(clusters.target_servers, topic, 3)
    _fill(clusters.source_servers, topic)
    path = _pipeline(clusters, tmp_path, topic, partition="producer")
    copy(load_pipeline([path]))
    source = {p: _records(clusters.source_servers, topic, p) for p in range(2)}
    target = {q: _records(clusters.target_servers, topic, q) for q in range(3)}
    for position in (3, 8, 14):
        asked = {TopicPartition(topic, 0): position, TopicPartition(topic, 1): position + 2}
        found = translate_checkpoint(path, asked)
        assert found.complete
        assert [row.partition.partition for row in found.partitions] == [0, 1, 2]
        unread = {v for tp, at in asked.items() for v in _values(source[tp.partition], at)}
        will_read = {v for tp, at in found.offsets.items() for v in _values(target[tp.partition], at)}
        assert unread <= will_read
        returned = translate_checkpoint(path, found.offsets, reverse=True).offsets
        read = {v for tp, at in found.offsets.items() for v in _values(target[tp.partition], 0, at)}
        for tp, offset in returned.items():
            assert not set(_values(source[tp.partition], 0, offset)) - read
    with OffsetTranslator.open(path) as opened:
        rows = opened.translate(topic, 0, [3])
        assert {row.to_partition for row in rows} <= {0, 1, 2}
        assert all(row.state == "exact" for row in rows)
    kafka.delete_topic(clusters.target_servers, topic)
    with pytest.raises(Refused, match="topics on one side do not exist"):
        translate_checkpoint(path, {TopicPartition(topic, 0): 3})
    back = translate_checkpoint(path, {TopicPartition(topic, 0): 3}, reverse=True)
    assert [(row.offset, row.state) for row in back.partitions] == [(None, "not replicated")] * 2
    with OffsetTranslator.open(path) as opened:
        assert opened.translate(topic, 0, [3])[0].state == "not replicated"
        assert opened.translate_back(topic, 0, [3])[0].state == "not replicated"
