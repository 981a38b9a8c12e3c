"""What a continuous run reports to Dagster: the truth, once, and in time."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets import discovery
from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.pause_records import Pause
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.source_topic import FewerPartitions, SourceDeleted, SourceRecreated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.kafka.cluster import TopicDescription
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.orchestration.assets.topics.sync_run import SyncRun
from k2k_assets.orchestration.checks.evaluations import Evaluations
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.report_schedule import report_interval
from k2k_assets.orchestration.runs.run_window import LINGER_SECONDS
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import HandedOver, PartitionClaimed, PartitionStopped, ProgressRead
from k2k_assets.replication.driver.progress import PartitionProgress, Progress
from k2k_assets_tests.status.records import commit_record
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.dagster.fixture import is_synced

WINDOW = 3600.0
TOPICS = ("a.b", "quiet")


@dataclass
class Fixture:
    """A run of the sync job without a copy, and a Dagster instance that it reports to."""

    folder: Path
    pipeline: Pipeline
    names: AssetNames
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)
    now: float = 1000.0
    materialized: list[dg.AssetMaterialization] = field(default_factory=list)
    checks: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    shown: dict[dg.AssetCheckKey, dg.AssetCheckEvaluation] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    reads: bool = True
    log: CommitLog = field(default_factory=CommitLog)
    ids: dict[str, str] = field(default_factory=dict)
    breaks: bool = False
    measured: list[TopicPartition] = field(default_factory=list)
    worked: int = 0
    shown_again: list[set[str]] = field(default_factory=list)

    def run(self) -> SyncRun:
        """A run that begins now."""
        return SyncRun(
            pipeline=self.pipeline,
            names=self.names,
            window=WINDOW,
            shown=TOPICS,
            sink=self,
            report=self.report,
            verdicts=self,
            read_log=self.read_log,
            describe=lambda topics: {t: TopicDescription(t, self.ids.get(t, "id"), 1) for t in topics},
            oldest=lambda waiting: dict.fromkeys(waiting, int(time.time() * 1000) - 2000),
            latency=self.latency,
            log=self.lines.append,
            warn=self.lines.append,
            works=self.note_worked,
            clock=lambda: self.now,
        )

    def log_event(self, event: dg.AssetMaterialization) -> None:
        """As a step's context does."""
        self._ensure_whole()
        self.materialized.append(event)
        self.instance.report_runless_asset_event(event)

    def note_worked(self) -> None:
        """Counts the calls."""
        self._ensure_whole()
        self.worked += 1

    def report(self, event: dg.AssetObservation) -> None:
        """As Dagster's instance does."""
        self._ensure_whole()
        self.instance.report_runless_asset_event(event)

    def give_unless_shown(self, verdicts: Evaluations) -> None:
        """As `RunVerdicts` does."""
        self._ensure_whole()
        for verdict in verdicts:
            before = self.shown.get(verdict.asset_check_key)
            if before is None or (before.passed, before.description) != (verdict.passed, verdict.description):
                self.checks.append(verdict)
                self.shown[verdict.asset_check_key] = verdict

    def show_again(self, materialized: Collection[dg.AssetKey]) -> None:
        """What it is asked for."""
        self.shown_again.append({key.path[-1] for key in materialized})

    def read_log(self) -> CommitLog:
        """As it is in the test."""
        if not self.reads:
            raise ClusterUnreachable("the target does not answer")
        return self.log

    def _ensure_whole(self) -> None:
        if self.breaks:
            raise OSError("the database is locked")

    def latency(self, commits: Collection[CommitRecord]) -> Mapping[TopicPartition, float]:
        """Of each partition as many seconds as its number, and a tenth."""
        self.measured += [record.source for record in commits]
        return {record.source: record.source.partition + 0.1 for record in commits}

    def is_synced(self, topic: str) -> bool:
        """What Dagster itself says of the copy."""
        return is_synced(self.instance, build_definitions(self.folder), self.names.topic_key(topic))

    def is_log_synced(self) -> bool:
        """Likewise of the commit log."""
        return is_synced(self.instance, build_definitions(self.folder), self.names.commit_log_key)

    def reported(self) -> list[str]:
        """The topics that were reported since the last call; the commit log under its own name."""
        keys = [event.asset_key.path[-1] for event in self.materialized]
        self.materialized.clear()
        return keys


@pytest.fixture
def fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fixture:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    folder = tmp_path / "pipelines"
    folder.mkdir()
    pipeline = make_pipeline(folder, "s:9092", "t:9092", ".*")
    known = {topic: DiscoveredTopic(1, topic) for topic in TOPICS}
    discovery.save(Discovery(pipeline.name, 0, "source", "target", known))
    return Fixture(folder, pipeline, AssetNames(pipeline.name))


def progress(position: int, end: int, stopped: StopReason | None = None, **more: int) -> ProgressRead:
    """Of the topic that moves, beside one that is quiet, and others at their end."""
    parts: Mapping[str, PartitionProgress] = {
        "a.b": PartitionProgress(position, end, end, records=position, stopped=stopped),
        "quiet": PartitionProgress(3, 3, 3),
        **{topic: PartitionProgress(at, at, at) for topic, at in more.items()},
    }
    return ProgressRead(Progress({TopicPartition(topic, 0): part for topic, part in parts.items()}, 0.0))


def test_each_topic_is_told_at_the_start_and_then_as_it_moves(fixture: Fixture) -> None:
    run = fixture.run()
    run.see(progress(5, 5))
    assert fixture.reported() == ["a.b", "quiet", "commit_log"]
    run.see(progress(6, 6))
    assert fixture.reported() == []
    seconds = report_interval(fixture.pipeline.sync.reports_per_day, [(0,)])
    fixture.now += seconds
    run.see(progress(8, 8))
    moved, log = fixture.materialized
    assert moved.metadata["k2k/offsets_written_per_second"].value == pytest.approx(3 / seconds, abs=0.05)
    assert moved.metadata["k2k/offsets_copied_per_second"].value == pytest.approx(3 / seconds, abs=0.05)
    assert (log.metadata["k2k/lag"].value, log.metadata["k2k/worst_partition"].value) == (0, "none")
    assert moved.metadata["k2k/seconds_behind"].value == 0.0
    assert fixture.reported() == ["a.b", "commit_log"]
    assert moved.metadata["k2k/records"].value == 3, "since it was told last"
    run.see(progress(8, 8, new=0))
    assert fixture.reported() == ["new", "commit_log"], "it appeared while the run was on"


def test_reports_are_as_rare_as_the_file_says(fixture: Fixture, tmp_path: Path) -> None:
    usual, name = report_interval(fixture.pipeline.sync.reports_per_day, [(0,)]), fixture.pipeline.name
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    fixture.pipeline = make_pipeline(elsewhere, "s:9092", "t:9092", ".*", sync={"reportsPerDay": 600}, name=name)
    run = fixture.run()
    run.see(progress(5, 5))
    fixture.reported()
    for turn, told in ((2, []), (1, ["a.b", "commit_log"])):
        fixture.now += turn * usual
        run.see(progress(6, 6))
        assert fixture.reported() == told


def test_latency_is_measured_where_something_was_copied_since_the_last_report(fixture: Fixture) -> None:
    def commit(topic: str, partition: int, ago: float) -> None:
        at = TopicPartition(topic, partition)
        fixture.log.positions[at] = commit_record(at, position=5, time=int((time.time() - ago) * 1000))

    run = fixture.run()
    commit("quiet", 0, ago=3600.0)
    commit("a.b", 0, ago=3600.0)
    run.see(progress(5, 5))
    assert fixture.measured == [], "committed before the run"
    assert all("k2k/latency_seconds" not in event.metadata for event in fixture.materialized)
    fixture.reported()
    fixture.now += (pause := report_interval(fixture.pipeline.sync.reports_per_day, [(0,)]))
    commit("a.b", 0, ago=1.0)
    commit("a.b", 1, ago=1.0)
    commit("a.b", 2, ago=pause + 60.0)
    commit("quiet", 0, ago=1.0)
    run.see(progress(8, 8))
    moved, _ = fixture.materialized
    assert moved.metadata["k2k/latency_seconds"].value == 1.1, "of the partition with the largest"
    assert {tp.topic for tp in fixture.measured} == {"a.b"}, "nothing else is reported"


def test_a_topic_is_synced_where_it_has_come_as_far_as_its_source_was_seen_to_be(fixture: Fixture) -> None:
    """By Dagster's own status, in one run: synced, unsynced, synced, unsynced, synced."""
    run = fixture.run()
    pace = report_interval(fixture.pipeline.sync.reports_per_day, [(0,)])
    run.see(progress(5, 5))
    assert fixture.is_synced("a.b")
    assert fixture.is_log_synced()
    for position in (5, 105):
        fixture.now += pace
        run.see(progress(position + 1, position + 100))
        assert fixture.reported() != ["a.b"], "it may come that far in a moment"
        fixture.now += 3
        run.see(progress(position + 50, position + 100))
        assert not fixture.is_synced("a.b"), "it lags"
        behind = fixture.materialized[-2].metadata["k2k/seconds_behind"].value
        assert isinstance(behind, float)
        assert behind >= 2.0
        assert fixture.is_synced("quiet")
        fixture.now += pace
        run.see(progress(position + 99, position + 100))
        fixture.now += 1
        run.see(progress(position + 100, position + 120))
        assert fixture.is_synced("a.b"), "it has come as far as it was seen to be, though more has come since"
        assert fixture.is_log_synced()


@pytest.mark.parametrize("to", [6, 5], ids=["copied on", "put right where it is"])
def test_a_stop_is_told_when_it_happens_and_so_is_its_end(fixture: Fixture, to: int) -> None:
    at = TopicPartition("a.b", 0)
    fixture.log = CommitLog({at: commit_record(at, position=5)})
    run = fixture.run()
    run.see(progress(5, 5))
    why = SourceDeleted("a.b")
    for _ in range(2):
        run.see(PartitionStopped(TopicPartition("a.b", 0), why))
    (_, failed) = fixture.checks
    assert (failed.asset_key, failed.passed) == (fixture.names.topic_key("a.b"), False)
    assert sum("a.b-0 is stopped: [source-deleted]" in line for line in fixture.lines) == 1
    run.see(progress(5, 9))
    assert len(fixture.checks) == 2, "the progress may be older than the stop"
    run.see(progress(5, 9, stopped=why))
    assert "a.b-0 is not stopped any more" not in fixture.lines
    run.see(progress(to, 9))
    assert [check.passed for check in fixture.checks] == [True, False, True]
    assert "a.b-0 is not stopped any more" in fixture.lines


def test_a_stop_for_another_reason_is_told_and_ends_with_its_partition(fixture: Fixture) -> None:
    """Tried again, a topic that was created anew may turn out to have fewer partitions."""
    one, other = TopicPartition("a.b", 0), TopicPartition("a.b", 1)
    fixture.log = CommitLog({one: commit_record(one, position=5)})
    run = fixture.run()
    run.see(progress(5, 5))
    for why in (SourceRecreated("a.b", "id", "another id"), FewerPartitions("a.b", 1)):
        run.see(PartitionStopped(other, why))
        assert f"a.b-1 is stopped: {render(why)}" in fixture.lines
    run.see(ProgressRead(Progress({one: PartitionProgress(5, 5, 5)}, 0.0)))
    assert [check.passed for check in fixture.checks] == [True, False, False, True]


def test_a_report_that_waits_for_a_partition_that_is_gone_comes_all_the_same(fixture: Fixture) -> None:
    one, other = TopicPartition("a.b", 0), TopicPartition("a.b", 1)
    run = fixture.run()
    behind = PartitionProgress(5, 9, 9)
    run.see(ProgressRead(Progress({one: behind, other: behind}, 0.0)))
    assert fixture.reported() == []
    run.see(ProgressRead(Progress({one: PartitionProgress(9, 9, 9)}, 0.0)))
    assert fixture.reported() == ["a.b", "commit_log"]


def test_the_stop_of_a_topic_that_appeared_since_is_told_too(fixture: Fixture) -> None:
    """The definitions of a run are those of its start; the UI may have been shown newer ones."""
    run = fixture.run()
    run.see(progress(5, 5, new=3))
    run.see(PartitionStopped(TopicPartition("new", 0), SourceDeleted("new")))
    (failed,) = fixture.checks
    assert (failed.asset_key, failed.check_name) == (fixture.names.topic_key("new"), "copies_on")


def test_it_has_worked_once_its_slots_have_copied_records(fixture: Fixture) -> None:
    def see(position: int, records: int) -> None:
        part = PartitionProgress(position, readable_end=12, high_watermark=12, records=records)
        run.see(ProgressRead(Progress({TopicPartition("a.b", 0): part}, 0.0)))

    run = fixture.run()
    see(9, records=0)
    see(12, records=0)
    assert fixture.worked == 0, "another one has copied them"
    run.see(PartitionClaimed(TopicPartition("a.b", 0), 1, 0))
    see(9, records=0)
    assert fixture.worked == 0
    for fixture.breaks in (True, False, False):  # Dagster's database is away for a while
        with suppress(OSError):
            see(10, records=1)
    assert fixture.worked == 1


def test_it_has_worked_too_where_nothing_is_left_to_copy(fixture: Fixture) -> None:
    run = fixture.run()
    run.see(PartitionClaimed(TopicPartition("a.b", 0), 1, 0))
    unknown = PartitionProgress(0, readable_end=END_UNKNOWN, high_watermark=END_UNKNOWN)
    run.see(ProgressRead(Progress({TopicPartition("a.b", 0): unknown}, 0.0)))
    assert fixture.worked == 0, "the source has not answered"
    run.see(progress(9, 9))
    assert fixture.worked == 1


def test_it_ends_when_another_one_has_taken_over_all(fixture: Fixture) -> None:
    run = fixture.run()
    run.see(HandedOver({TopicPartition("a.b", 0): "another"}, nothing_left=False))
    assert not run.is_over()
    run.see(HandedOver({TopicPartition("a.b", 0): "another"}, nothing_left=True))
    assert run.is_over()
    assert run.ending() == "handed over: another copies on"


def test_it_ends_a_while_after_its_window_where_nobody_takes_over(fixture: Fixture) -> None:
    run = fixture.run()
    fixture.now += WINDOW
    assert not run.is_over()
    fixture.now += LINGER_SECONDS
    assert run.is_over()
    assert "no other run has taken over" in run.ending()


def test_what_cannot_be_told_is_told_later(fixture: Fixture) -> None:
    run = fixture.run()
    fixture.reads = False
    for _ in range(2):
        run.see(progress(5, 5))
    assert fixture.reported() == [], "without the commit log nobody knows what is stopped"
    assert fixture.lines == ["what is copied is told later: the target does not answer"]
    fixture.reads = True
    run.see(progress(5, 5))
    assert fixture.reported() == ["a.b", "quiet", "commit_log"]


def test_what_is_told_is_not_told_again_where_dagster_fails_at_another_topic(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each progress, once a second, it was: all that the database had taken before it failed."""
    run, write = fixture.run(), fixture.log_event

    def log_event(event: dg.AssetMaterialization) -> None:
        fixture.breaks = event.asset_key == fixture.names.topic_key("quiet")
        write(event)

    monkeypatch.setattr(fixture, "log_event", log_event)
    for position in (5, 7):
        with pytest.raises(OSError, match="locked"):
            run.see(progress(position, position))
        fixture.breaks = False
    assert fixture.reported() == ["a.b"]
    monkeypatch.undo()
    run.see(progress(7, 7))
    assert fixture.reported() == ["quiet", "commit_log"]
    fixture.now += report_interval(fixture.pipeline.sync.reports_per_day, [(0,)])
    run.see(progress(7, 7))
    assert fixture.reported() == ["a.b", "commit_log"], "it has moved since it was told"


def test_a_stop_that_could_not_be_told_when_it_happened_is_told_later(fixture: Fixture) -> None:
    """Else the topic's check would go on saying that it is copied on."""
    run = fixture.run()
    run.see(progress(5, 5))
    fixture.reads = False
    why = SourceDeleted("a.b")
    run.see(PartitionStopped(TopicPartition("a.b", 0), why))
    assert fixture.checks == []
    fixture.reads, fixture.breaks = True, True
    with pytest.raises(OSError, match="locked"):
        run.see(progress(5, 9, stopped=why))
    fixture.breaks = False
    for _ in range(2):
        run.see(progress(5, 9, stopped=why))
    assert [check.passed for check in fixture.checks] == [False]


def test_a_topic_that_is_another_one_by_now_is_not_synced(fixture: Fixture) -> None:
    """Its source is shorter than what was copied of the one before: by the offsets alone nothing is left to copy."""
    at = TopicPartition("a.b", 0)
    fixture.log = CommitLog({at: commit_record(at, position=500)})
    run = fixture.run()
    run.see(progress(500, 500))
    assert fixture.is_synced("a.b")
    fixture.ids["a.b"] = "another id"
    again = fixture.run()
    again.see(progress(500, 10))
    assert not fixture.is_synced("a.b"), "while its slot has not stopped it yet"


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_topic_that_is_stopped_is_not_synced_any_more(fixture: Fixture, is_noted: bool) -> None:
    """Whether its commit record says so or, without a position, nothing but the event."""
    run = fixture.run()
    run.see(progress(500, 500))
    assert fixture.is_synced("a.b")
    why = SourceRecreated("a.b", "id", "another id")
    run.see(PartitionStopped(TopicPartition("a.b", 0), why))
    fixture.now += report_interval(fixture.pipeline.sync.reports_per_day, [(0,)])
    run.see(progress(500, 10, stopped=why if is_noted else None))
    assert not fixture.is_synced("a.b")
    assert fixture.is_synced("quiet")


def test_each_topic_that_is_reported_has_a_verdict(fixture: Fixture) -> None:
    """Else Dagster shows its check as not evaluated: the last verdict is about an older materialization."""
    moving, quiet = TopicPartition("a.b", 0), TopicPartition("quiet", 0)
    fixture.log = CommitLog({moving: commit_record(moving, position=5), quiet: commit_record(quiet, position=3)})
    run = fixture.run()
    run.see(progress(5, 5))
    assert {verdict.asset_key for verdict in fixture.checks} == {fixture.names.topic_key(topic) for topic in TOPICS}
    assert all(verdict.passed for verdict in fixture.checks)
    assert fixture.shown_again == [{"a.b", "quiet"}], "what other checks have said may be hidden"
    fixture.now += 3600
    run.see(progress(6, 6))
    assert fixture.shown_again[1:] == [{"a.b"}]


def test_a_topic_of_which_nothing_is_committed_yet_has_no_verdict_yet(fixture: Fixture) -> None:
    """It would be a doubt, which goes with the first commit; the next report of a quiet topic may be an hour away."""
    run = fixture.run()
    run.see(progress(5, 5))
    assert fixture.checks == []


def test_a_paused_topic_is_told_by_its_check_and_its_metadata_and_again_when_it_is_resumed(fixture: Fixture) -> None:
    run = fixture.run()
    run.see(progress(5, 5))
    fixture.reported()
    pause = Pause("anna@ops1", 0, "month end")
    at = progress(5, 9)
    run.see(ProgressRead(replace(at.progress, paused={"a.b": pause, "of another pipeline": pause})))
    (check,) = fixture.checks
    assert check.passed
    assert "paused by anna@ops1: month end" in str(check.metadata["k2k/summary"].value)
    assert "a.b is paused by anna@ops1: month end" in fixture.lines
    fixture.now += 3600
    for _ in range(2):
        run.see(ProgressRead(replace(at.progress, paused={"a.b": pause})))
        fixture.now += 10
    told = {event.asset_key.path[-1]: event for event in fixture.materialized}
    assert told["a.b"].metadata["k2k/paused"].value == "paused by anna@ops1: month end"
    run.see(at)
    assert "a.b is resumed" in fixture.lines
    assert len(fixture.checks) == 2
