"""Each loud stop with the command in its message: the command lets the topic continue and changes nothing else."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.coordination.announce import announce
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reason import render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import PartitionMapping, fold
from k2k_assets.mapping.index.manifest import NotedPosition
from k2k_assets.overrides import apply
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.replication.plan import slot_of
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation import OffsetTranslator
from k2k_assets.verification.coverage import CoveredRow, check_coverage
from k2k_assets_tests.support.brokers.kafka import (
    Record,
    create_topic,
    delete_records,
    delete_topic,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.copying import Running, commit_records, copy, mapping_records, told
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.takeovers import claimed_topics
from k2k_assets_tests.support.copies.tool import run_tool
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = pytest.mark.integration


class OverrideFixture:
    """A pipeline file, the copies of it, and the tool on it."""

    def __init__(
        self, clusters: KafkaSandbox, folder: Path, capsys: Any, *topics: str, mode: str = "enabled", **rest: Any
    ) -> None:
        self.source, self.target = clusters.source_servers, clusters.target_servers
        features = {"exactlyOnce": mode, "offsetMapping": "enabled"}
        self.path = write_pipeline(folder, self.source, self.target, topics, features=features, **rest)
        self.pipeline: Pipeline = load_pipeline([self.path])
        self._capsys = capsys

    def tool(self, command: str, *arguments: str) -> tuple[int, str]:
        """The exit code, and all that it said."""
        return run_tool(self._capsys, self.path, command, *arguments)

    def remedy(self, reason: str, which: int = 0) -> str:
        """Runs a command that a reason names."""
        named = re.findall(r"k2k-tool set -f FILE ((?:-o \S+|--accept\S+| )+)", reason)[which]
        code, said = self.tool("set", *(word.rstrip(";:,") for word in shlex.split(named)), "--reason", "it is known")
        assert code == 0, said
        return said

    def newest(self, topic: str, partition: int = 0) -> CommitRecord:
        at = TopicPartition(topic, partition)
        return [record for record in commit_records(self.pipeline, self.target) if record.source == at][-1]

    def translated(self, topic: str, offset: int) -> tuple[int | None, str]:
        with OffsetTranslator.open(self.pipeline) as translator:
            (row,) = translator.translate(topic, 0, [offset])
        return row.to_offset, row.state

    def assert_covered(self) -> None:
        """The coverage check on what the control topics say now."""
        newest = {r.source: r for r in commit_records(self.pipeline, self.target)}
        by_source: dict[tuple[str, int, str], list[Any]] = {}
        for record in mapping_records(self.pipeline, self.target):
            by_source.setdefault((record.topic, record.partition, record.source_topic_id), []).append(record)
        rows = [
            CoveredRow(topic, topic_id, partition, *covered)
            for (topic, partition, topic_id), records in by_source.items()
            for covered in fold(PartitionMapping(), records).covered
        ]
        positions = [
            NotedPosition(
                topic=tp.topic, partition=tp.partition, source_topic_id=r.source_topic_id, position=r.position,
                records=r.records,
            )
            for tp, r in newest.items()
        ]  # fmt: skip
        said = check_coverage(rows, positions, {tp: r.position for tp, r in newest.items()}, [])
        assert said.passed, said.summary

    def copied(self, topic: str) -> list[bytes | None]:
        """All values; at least once without those that came again, as what a fenced copier had in hand may."""
        values = self.values(topic)
        return values if self.pipeline.features.exactly_once else list(dict.fromkeys(values))

    def values(self, topic: str) -> list[bytes | None]:
        return [record.value for record in read_all(self.target, topic)]


@pytest.mark.slow
def test_the_remedies_of_the_stops_at_a_start(clusters: KafkaSandbox, tmp_path: Path, capsys: Any) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    names = ("anew", "pruned", "lost", "further", "good")
    anew, pruned, lost, further, good = topics = [create_topic(source, unique(n)) for n in names]
    for topic in topics:
        produce(source, topic, [b"a"] * 3)
    fixture = OverrideFixture(clusters, tmp_path, capsys, *topics)
    assert copy(fixture.pipeline).stopped == {}
    delete_topic(source, anew)
    create_topic(source, anew)
    for topic in (lost, further):
        delete_topic(target, topic)
    create_topic(target, lost)  # the other one is created by the next start
    for topic in topics:
        produce(source, topic, [b"b%d" % i for i in range(10)])
    delete_records(source, pruned, 0, 8)
    stopped = told(copy(fixture.pipeline))
    assert set(stopped) == {anew, pruned, lost, further}
    _, shown = fixture.tool("describe")
    described = {row["topic"]: row for row in yaml.safe_load(shown)["committed"]}
    assert {topic: stopped[topic].partition(": ")[2] for topic in stopped} == {
        topic: f"[{row['stop_code']}] {row['stopped']}" for topic, row in described.items() if topic != good
    }
    assert (described[pruned]["committed"], described[pruned]["last"], "stopped" in described[good]) == (3, 13, False)

    said = fixture.remedy(stopped[pruned])
    assert f"{pruned}-0: 3 -> 8   skips 5 offsets, 3 to 7: they are never copied" in said
    fixture.remedy(stopped[anew])
    fixture.remedy(stopped[lost])
    fixture.remedy(stopped[further], 1)
    fixture.assert_covered()
    assert fixture.translated(pruned, 5) == (3, "exact"), "nothing of what was skipped is on the target"
    assert set(copy(fixture.pipeline).stopped) == set()

    new = [b"b%d" % i for i in range(10)]
    assert fixture.values(pruned) == [b"a"] * 3 + new[5:]
    assert fixture.values(anew) == [b"a"] * 3 + new, "behind what was copied of the old topic"
    assert fixture.values(lost) == [b"a"] * 3 + new, "everything again"
    assert fixture.values(further) == new, "from the position on"
    fixture.assert_covered()
    assert {fixture.translated(pruned, at) for at in (3, 5, 8)} == {(4, "exact")}, "a commit marker lies at 3"
    assert fixture.translated(pruned, 2) == (2, "exact")
    assert fixture.translated(anew, 0) == (4, "exact"), "offset 0 is one of the new topic"
    assert fixture.translated(further, 3) == (0, "exact")
    assert fixture.translated(further, 1) == (None, "unknown"), "1 and 2 were in the topic that is gone"
    (noted,) = [r for r in mapping_records(fixture.pipeline, target) if r.override and r.topic == pruned]
    assert (noted.covered_from, noted.covered_to) == (3, 8)
    assert noted.override is not None
    assert noted.override.endswith(": it is known")
    (done,) = [r for r in commit_records(fixture.pipeline, target) if r.kind == "override" and r.source.topic == pruned]
    assert done.overridden is not None
    assert (done.overridden.position, done.overridden.why) == (3, "it is known")
    assert done.overridden.stopped is not None
    assert "records 3 to 7 were deleted" in render(done.overridden.stopped)


def test_the_only_position_is_set_anew_when_it_cannot_be_read(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("unreadable"))
    produce(source, topic, [b"a", b"b"])
    fixture = OverrideFixture(
        clusters, tmp_path, capsys, topic, errorHandling={"onControlMessageDeserializationError": "ignore"}
    )
    copy(fixture.pipeline)
    commits = fixture.pipeline.coordination.commit.topic
    (known,) = {(record.key, record.partition) for record in read_all(target, commits)}
    produce(target, commits, [Record(known[0], b"no JSON", partition=known[1])])
    stopped = told(copy(fixture.pipeline))
    fixture.remedy(stopped[topic].replace("OFFSET", "1"))
    assert copy(fixture.pipeline).stopped == {}
    assert fixture.values(topic) == [b"a", b"b", b"b"]


def test_a_foreign_record_right_behind_the_accepted_ones_does_not_pass_as_a_marker(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("shared"))
    fixture = OverrideFixture(clusters, tmp_path, capsys, topic)
    produce(source, topic, [b"ours"] * 2)
    assert copy(fixture.pipeline).stopped == {}
    produce(target, topic, [b"foreign"])
    produce(source, topic, [b"ours"] * 2)
    fixture.remedy(told(copy(fixture.pipeline))[topic])
    produce(target, topic, [b"foreign"])
    assert "1 record at" in told(copy(fixture.pipeline))[topic]


def test_foreign_records_are_accepted_but_not_those_that_come_later(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("shared"))
    fixture = OverrideFixture(clusters, tmp_path, capsys, topic)

    def again() -> dict[str, str]:
        produce(source, topic, [b"ours"] * 2)
        return told(copy(fixture.pipeline))

    assert again() == {}
    for times in (1, 2):
        produce(target, topic, [b"foreign"])
        stopped = again()
        assert "1 record at" in stopped[topic]
        fixture.remedy(stopped[topic])
        assert copy(fixture.pipeline).stopped == {}
        assert fixture.values(topic).count(b"foreign") == times
    assert fixture.values(topic) == [b"ours"] * 2 + [b"foreign"] + [b"ours"] * 2 + [b"foreign"] + [b"ours"] * 2
    fixture.assert_covered()
    ours = [record.offset for record in read_all(target, topic) if record.value == b"ours"]
    assert [fixture.translated(topic, at) for at in range(6)] == [(offset, "exact") for offset in ours]


def test_back_and_forth_and_what_is_refused(clusters: KafkaSandbox, tmp_path: Path, capsys: Any) -> None:
    source = clusters.source_servers
    topic, other = create_topic(source, unique("moved"), 2), create_topic(source, unique("other"))
    for partition in (0, 1):
        produce(source, topic, [b"%d" % i for i in range(6)], partition)
    fixture = OverrideFixture(clusters, tmp_path, capsys, topic, other)
    assert copy(fixture.pipeline).stopped == {}

    code, said = fixture.tool("set", "-o", f"{topic}:0:7", "-o", f"{topic}:1:2")
    assert code == 3
    assert f"{topic}-0: offset 7 is not in the source, which holds 0 to 6" in said
    assert fixture.newest(topic, 1).position == 6, "all or nothing"
    code, said = fixture.tool("set", "-o", f"{topic}:0:4", "--dry-run")
    assert (code, fixture.newest(topic).position) == (0, 6)
    assert said.endswith(f"{topic}-0: 6 -> 4   copies 4 to 5 a second time\n1 position would be set; nothing was\n")
    assert fixture.tool("set", "-o", "unknown:0:4")[0] == 3

    assert fixture.tool("set", "-o", f"{topic}:0:4")[0] == 0
    fixture.assert_covered()
    assert fixture.translated(topic, 5) == (4, "ahead"), "until it is copied again"
    produce(source, topic, [b"new"], 0)
    produce(source, other, [b"new"])
    assert copy(fixture.pipeline).stopped == {}
    fixture.assert_covered()
    again = [r.value for r in read_all(fixture.target, topic, 0)]
    assert again == [b"%d" % i for i in range(6)] + [b"4", b"5", b"new"]
    assert [fixture.translated(topic, at)[0] for at in (3, 4, 5, 6)] == [3, 7, 8, 9], "the later copy counts"

    assert fixture.tool("set", "-o", f"{topic}:0:5", "-o", f"{topic}:0:latest")[0] == 0
    code, said = fixture.tool("reset", "--yes", "--reason", "a new start")
    assert code == 0
    assert f"{topic}-1: 6 -> 0   copies 0 to 5 a second time" in said
    assert said.endswith("3 positions set\n")
    assert copy(fixture.pipeline).stopped == {}
    fixture.assert_covered()
    assert len(read_all(fixture.target, topic)) == 6 + 9 + 7 + 6
    assert [fixture.newest(topic, p).position for p in (0, 1)] == [7, 6]


def test_a_position_that_is_set_while_mappings_are_switched_off_cancels_them_too(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any
) -> None:
    """Else the first copies answer, as exact, though each of these records comes a second time behind them."""
    topic = create_topic(clusters.source_servers, unique("switched"))
    produce(clusters.source_servers, topic, [b"%d" % i for i in range(6)])
    fixture = OverrideFixture(clusters, tmp_path, capsys, topic)
    assert copy(fixture.pipeline).stopped == {}
    with_mappings = fixture.path.read_text(encoding="utf-8")
    without = yaml.safe_load(with_mappings)
    without["features"]["offsetMapping"] = "disabled"
    fixture.path.write_text(yaml.safe_dump(without), encoding="utf-8")
    assert fixture.tool("set", "-o", f"{topic}:0:3")[0] == 0
    assert copy(load_pipeline([fixture.path])).stopped == {}
    fixture.path.write_text(with_mappings, encoding="utf-8")
    produce(clusters.source_servers, topic, [b"new"])
    assert copy(fixture.pipeline).stopped == {}
    assert len(read_all(clusters.target_servers, topic)) == 10
    assert fixture.translated(topic, 2) == (2, "exact")
    assert [fixture.translated(topic, at)[1] for at in (3, 4, 5)] == ["unknown"] * 3


def test_who_copies_is_asked_first_and_fenced_if_need_be(clusters: KafkaSandbox, tmp_path: Path, capsys: Any) -> None:
    source = clusters.source_servers
    topic = create_topic(source, unique("busy"))
    produce(source, topic, [b"a"] * 5)
    fixture = OverrideFixture(clusters, tmp_path, capsys, topic)
    running = Running(fixture.pipeline, 1)
    running.await_copied(5)

    code, said = fixture.tool("set", "-o", f"{topic}:0:2")
    assert code == 3
    assert f"has not released {topic}-0. Stop it first" in said
    assert f"pipeline {fixture.pipeline.name} on " in said
    assert fixture.newest(topic).position == 5
    code, said = fixture.tool("set", "-o", f"{topic}:0:2", "--force")
    assert code == 0, said

    produce(source, topic, [b"b"])  # the fenced instance stands by, and continues at the new position
    wait_until(lambda: fixture.newest(topic).position == 6, 120, "the copy to go on")
    running.end()
    kinds = [(r.kind, r.position) for r in commit_records(fixture.pipeline, fixture.target)]
    assert ("override", 2) in kinds
    assert fixture.values(topic) == [b"a"] * 8 + [b"b"]
    fixture.assert_covered()


@MODES
def test_what_is_copied_until_the_copier_is_fenced_counts(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """`latest` is where the source ends when nobody copies any more: never behind what was copied meanwhile."""
    source = clusters.source_servers
    topic = create_topic(source, unique("flowing"))
    produce(source, topic, [b"%d" % i for i in range(5)])
    fixture = OverrideFixture(clusters, tmp_path, capsys, topic, mode=mode)
    running = Running(fixture.pipeline, 1)
    running.await_copied(5)

    def later(*what: Any) -> int:
        produce(source, topic, [b"%d" % i for i in range(5, 10)])
        running.await_copied(10)
        return announce(*what)

    monkeypatch.setattr(apply, "announce", later)
    code, said = fixture.tool("set", "-o", f"{topic}:0:latest", "--force")
    assert code == 0, said
    produce(source, topic, [b"10"])
    wait_until(lambda: fixture.newest(topic).position == 11, 120, "the copy to go on")
    running.end()
    assert fixture.copied(topic) == [b"%d" % i for i in range(11)]
    fixture.assert_covered()


def test_who_stopped_a_topic_lets_go_of_it_while_it_copies_another(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any
) -> None:
    """One slot has both. Its topic is put right beside it, and taken up by it."""
    source = clusters.source_servers
    good, bad = (create_topic(source, unique(name)) for name in ("good", "bad"))
    fixture = OverrideFixture(clusters, tmp_path, capsys, good, bad)
    running = _copied_until_created_anew(fixture, good, bad, cores=1)
    wait_until(lambda: claimed_topics(clusters, fixture.pipeline) == {good}, 120, "the slot to let go of it")
    produce(source, good, [b"b"] * 2)
    wait_until(lambda: fixture.newest(good).position == 5, 120, "the other topic to be copied on")
    code, said = fixture.tool("set", "-o", f"{good}:all:earliest")
    assert code == 3
    assert f"has not released {good}-0. Stop it first" in said
    assert fixture.tool("set", "-o", f"{bad}:all:earliest", "--accept-new-topic")[0] == 0
    wait_until(lambda: fixture.newest(bad).position == 5, 120, "the new topic to be copied")
    assert fixture.values(good) == [b"a"] * 3 + [b"b"] * 2
    running.end()
    assert fixture.newest(bad).reason is None
    assert fixture.values(bad) == [b"a"] * 3 + [b"%d" % i for i in range(5)]


def test_a_topic_that_was_created_anew_is_taken_up_once_it_is_accepted(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any
) -> None:
    """Its slot had nothing else and has let go of it, so nobody stands in the way of the override."""
    source = clusters.source_servers
    bad = create_topic(source, unique("bad"))
    names = (unique("good") for _ in itertools.count())
    good = create_topic(source, next(n for n in names if _slot(n) != _slot(bad)))
    fixture = OverrideFixture(clusters, tmp_path, capsys, good, bad)
    running = _copied_until_created_anew(fixture, good, bad, cores=2)
    accepted = ("set", "-o", f"{bad}:all:earliest", "--accept-new-topic")
    wait_until(lambda: fixture.tool(*accepted)[0] == 0, 120, "the slot to let go of it")
    wait_until(lambda: fixture.newest(bad).position == 5, 120, "the new topic to be copied")
    running.end()
    assert fixture.values(bad) == [b"a"] * 3 + [b"%d" % i for i in range(5)]


def _copied_until_created_anew(fixture: OverrideFixture, good: str, bad: str, cores: int) -> Running:
    """Three records of each; then one of the topics is another one with five, and stopped."""
    for topic in (good, bad):
        produce(fixture.source, topic, [b"a"] * 3)
    running = Running(fixture.pipeline, cores)
    running.await_copied(6)
    delete_topic(fixture.source, bad)
    create_topic(fixture.source, bad)
    produce(fixture.source, bad, [b"%d" % i for i in range(5)])
    wait_until(lambda: fixture.newest(bad).reason, 120, "the topic to be stopped")
    return running


def _slot(topic: str) -> int:
    return slot_of(TopicPartition(topic, 0), 2)
