"""A run of the sync job: it copies until the next one takes over, and reports to Dagster meanwhile.

Each topic is reported once at the start, so that a quiet one does not look as if it were being made for an hour, then
those that moved, at the pace of `ReportSchedule`, and the commit log with them. A stop is reported when it happens, by
the topic's check; the others are copied on. What cannot be told now, because a cluster or Dagster's database does not
answer, is told later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import dagster as dg

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition, by_topic
from k2k_assets.kafka.cluster import TopicDescription
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.commit_log import commit_log_metadata, commit_log_version
from k2k_assets.orchestration.assets.data_versions import provenance_tags, version_of
from k2k_assets.orchestration.assets.topics.copy_verdicts import CopyVerdicts
from k2k_assets.orchestration.assets.topics.freshness_reports import FreshnessReports
from k2k_assets.orchestration.assets.topics.settings_reports import SettingsReports
from k2k_assets.orchestration.assets.topics.topic_report import out_of_step, topic_report
from k2k_assets.orchestration.assets.topics.topic_results import Movement, live_metadata
from k2k_assets.orchestration.checks.evaluations import RepeatingVerdictSink
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.event_sink import EventSink
from k2k_assets.orchestration.runs.report_schedule import Positions, ReportSchedule, report_interval
from k2k_assets.orchestration.runs.run_window import RunWindow
from k2k_assets.orchestration.runs.watched_copy import ProgressLog
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import Event, HandedOver, PartitionClaimed, PartitionStopped, ProgressRead
from k2k_assets.replication.driver.progress import PartitionProgress, Progress, longest_waits
from k2k_assets.status.lag import PartitionLag, lags, total_lag
from k2k_assets.status.positions import positions_of

# How long a topic that moves is waited for to have come as far as its source was seen to be.
_CATCH_UP_SECONDS = 3.0
# In the place of a position: so a stop is something to report.
_STOPPED = -1


class _Reported(NamedTuple):
    """When a topic was reported last, the records copied so far, and the sums of its ends and of its positions."""

    time: float
    records: int = 0
    ends: int | None = None
    positions: int | None = None


@dataclass(slots=True)
class SyncRun:
    """Watches one run of the sync job.

    Attributes:
        pipeline: What is copied.
        names: Its names.
        window: Seconds after which the next run is to take over.
        shown: The topics that have an asset since the run began; others may have got one since.
        sink: Takes the materializations of this run.
        report: Takes what is no event of this run: observations of sources.
        verdicts: Takes the verdicts of the topics' checks.
        read_log: Reads the commit log.
        describe: Those of some source topics that can be seen.
        oldest: Timestamps of the oldest records that are not copied yet, as `WaitingRecords.oldest`.
        latency: Seconds from the last records' timestamps to their commits, as `CommitLatency.measure`.
        log: Takes a line.
        warn: Takes a line that needs attention.
        works: Called once: the run has copied records, or found that there are none to copy.
        settings: Reports the settings of topics; None: nobody does.
        freshness: Reports which topics are late; None without `sync.freshness`.
        clock: Seconds that only rise.
        handed_over_to: Who has taken over; empty as long as nobody has.
    """

    pipeline: Pipeline
    names: AssetNames
    window: float
    shown: Collection[str]
    sink: EventSink
    report: Callable[[dg.AssetObservation], None]
    verdicts: RepeatingVerdictSink
    read_log: Callable[[], CommitLog]
    describe: Callable[[Collection[str]], Mapping[str, TopicDescription]]
    oldest: Callable[[Mapping[TopicPartition, tuple[int, int]]], Mapping[TopicPartition, int | None]]
    latency: Callable[[Collection[CommitRecord]], Mapping[TopicPartition, float]]
    log: Callable[[str], None]
    warn: Callable[[str], None]
    works: Callable[[], None] = lambda: None
    settings: SettingsReports | None = None
    freshness: FreshnessReports | None = None
    clock: Callable[[], float] = time.monotonic
    handed_over_to: str = ""
    _window: RunWindow = field(init=False)
    _progress_log: ProgressLog = field(init=False)
    _schedule: ReportSchedule[Positions] = field(init=False)
    _pending: Mapping[str, dict[int, int]] = field(default_factory=dict)
    _pending_since: float = 0.0
    _written: dict[str, Positions] = field(default_factory=dict)
    _versions: dict[str, str] = field(default_factory=dict)
    _checks: CopyVerdicts = field(init=False)
    _is_in_trouble: bool = False
    _has_claimed: bool = False
    _has_worked: bool = False
    _reported: dict[str, _Reported] = field(default_factory=dict)
    _last: Mapping[TopicPartition, PartitionProgress] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begins the window."""
        self._window = RunWindow(self.window, self.clock)
        self._progress_log = ProgressLog(self.log, self._seconds_behind, self.clock)
        self._checks = CopyVerdicts(self.names, self.shown, self.verdicts, self._read_log, self.log, self.warn)
        self._schedule = ReportSchedule(partial(report_interval, self.pipeline.sync.reports_per_day))

    def see(self, event: Event) -> None:
        """Reports what is to be reported."""
        self._progress_log.see(event)
        match event:
            case HandedOver(nothing_left=True):
                self.handed_over_to = ", ".join(event.owners)
            case PartitionClaimed():
                self._has_claimed = True
            case PartitionStopped():
                self._checks.stop(event.partition, event.reason, self._position(event.partition))
            case ProgressRead():
                self._last = event.progress.partitions
                self._checks.see(event.progress)
                self._report_when_due(event.progress)
                if self.settings:
                    self.settings.report_when_due({tp.topic for tp in self._last}, self.clock())
                if self.freshness:
                    self.freshness.report_when_due(event.progress, self.clock())
                self._note_work(event.progress.partitions.values())
            case _:
                pass

    def is_over(self) -> bool:
        """Whether somebody has taken over, or nobody has for long after the window."""
        return bool(self.handed_over_to) or self._window.is_long_over()

    def ending(self) -> str:
        """Why the run ended, in words."""
        return self._window.ending(f"{self.handed_over_to} copies on" if self.handed_over_to else "")

    def _note_work(self, parts: Collection[PartitionProgress]) -> None:
        """Notes once that the run works; before its slots have claimed anything, the end may be that of others."""
        if self._has_worked or not self._has_claimed:
            return
        nothing_left = all(part.stopped or (part.is_end_known and not part.lag) for part in parts)
        if nothing_left or any(part.records for part in parts):
            self.works()
            self._has_worked = True

    def _position(self, tp: TopicPartition) -> int:
        return self._last[tp].position if tp in self._last else 0

    def _report_when_due(self, progress: Progress) -> None:
        """A topic that is due is reported once it has come as far as its source was seen to be, or after a while."""
        now = self.clock()
        topics = by_topic(progress.partitions)
        if not self._pending:
            due = self._schedule.due({topic: self._state(topic, parts) for topic, parts in topics.items()}, now)
            self._pending = {topic: _ends(topics[topic]) for topic in due}
            self._pending_since = now
        if not self._pending:
            return
        arrived = all(_covers(topics[topic], ends) for topic, ends in self._pending.items())
        if not arrived and now - self._pending_since < _CATCH_UP_SECONDS:
            return
        if (log := self._read_log()) is None or (described := self._described(topics)) is None:
            return
        others = self._out_of_step(log, described)
        found = lags_of(progress.partitions, self.oldest)
        lags_by_topic = by_topic(found)
        latencies = by_topic(self.latency(self._copied_since(log, now)))
        for topic, ends in self._pending.items():
            if topic in self._written:
                continue  # Dagster's database has failed at another one of them
            behind = total_lag(lags_by_topic[topic].values()).seconds
            latency = max(latencies.get(topic, {}).values(), default=None)
            of = described[topic].topic_id if topic in described else ""
            self._report(topic, topics[topic], ends, of, others.get(topic, ()), behind, latency, now)
            self._written[topic] = self._state(topic, topics[topic])
        self._checks.give_of_reported(self._pending, log)
        # A late topic is seen to be late, also after a click, which gives the check a verdict of another run.
        self.verdicts.show_again({self.names.topic_key(topic) for topic in self._pending})
        self._schedule.reported(self._written, now)
        self._pending, self._written = {}, {}
        self._report_commit_log(log, found)

    def _state(self, topic: str, parts: Mapping[int, PartitionProgress]) -> Positions:
        """Where a topic stands; one that never had a position says nothing of its stop in the commit log."""
        stopped = {n for n, part in parts.items() if part.stopped or TopicPartition(topic, n) in self._checks.stopped}
        paused = (_STOPPED,) if topic in self._checks.paused else ()
        return (*(_STOPPED if n in stopped else part.position for n, part in parts.items()), *paused)

    def _described(self, topics: Collection[str]) -> Mapping[str, TopicDescription] | None:
        """The source topics; None if the source does not answer."""
        try:
            return self.describe(topics)
        except K2KError as error:
            self._wait(error)
            return None

    def _out_of_step(self, log: CommitLog, described: Mapping[str, TopicDescription]) -> Mapping[str, Collection[int]]:
        """As `out_of_step`, with what this run has stopped."""
        found = out_of_step(log, described)
        for tp in self._checks.stopped:
            found.setdefault(tp.topic, set()).add(tp.partition)
        return found

    def _copied_since(self, log: CommitLog, now: float) -> list[CommitRecord]:
        """The newest commits of topics that are reported, as far as they were made since their last report."""
        clock = int(time.time() * 1000)
        since = {
            topic: clock - 1000 * (now - self._reported.get(topic, _Reported(self._window.started)).time)
            for topic in self._pending
        }
        return [record for tp, record in log.positions.items() if tp.topic in since and record.time >= since[tp.topic]]

    def _seconds_behind(self, progress: Progress) -> float | None:
        return total_lag(lags_of(progress.partitions, self.oldest).values()).seconds

    def _report(
        self,
        topic: str,
        parts: Mapping[int, PartitionProgress],
        ends: dict[int, int],
        topic_id: str,
        not_in_step: Collection[int],
        behind: float | None,
        latency: float | None,
        now: float,
    ) -> None:
        positions = {n: part.position for n, part in parts.items()}
        self._versions[topic] = version_of(positions.items(), topic_id)
        before = self._reported.get(topic, _Reported(self._window.started))
        records = sum(part.records for part in parts.values())
        self._reported[topic] = _Reported(now, records, sum(ends.values()), sum(positions.values()))
        movement = Movement(
            now - before.time,
            max(0, records - before.records),
            _since(before.ends, ends.values()),
            _since(before.positions, positions.values()),
        )
        target = self.pipeline.routing.target_if_any(topic) or ""
        metadata = live_metadata(target, parts, movement, behind, latency, self._checks.paused.get(topic))
        told = self.names, self.pipeline.code_version, topic, ends, positions, metadata, topic_id
        for event in topic_report(*told, not_in_step):
            if isinstance(event, dg.AssetObservation):
                self.report(event)  # in the run's log its line would say nothing
            else:
                self.sink.log_event(event)

    def _report_commit_log(self, log: CommitLog, lags: Mapping[TopicPartition, PartitionLag]) -> None:
        key = self.names.commit_log_key
        rows = positions_of(log.positions, lags)
        inputs = {self.names.topic_key(topic): version for topic, version in self._versions.items()}
        shown = commit_log_metadata(rows, log.stopped_without_position, keys.MOST_ROWS_AGAIN)
        tags = provenance_tags(commit_log_version(rows), None, inputs)
        self.sink.log_event(dg.AssetMaterialization(key, metadata=shown, tags=tags))

    def _read_log(self) -> CommitLog | None:
        try:
            log = self.read_log()
        except K2KError as error:
            self._wait(error)
            return None
        self._is_in_trouble = False
        return log

    def _wait(self, error: K2KError) -> None:
        if not self._is_in_trouble:
            self._is_in_trouble = True
            self.warn(f"what is copied is told later: {error}")


def lags_of(
    parts: Mapping[TopicPartition, PartitionProgress],
    oldest: Callable[[Mapping[TopicPartition, tuple[int, int]]], Mapping[TopicPartition, int | None]],
) -> dict[TopicPartition, PartitionLag]:
    """How far partitions are behind, in offsets and in seconds.

    Args:
        parts: The partitions.
        oldest: See `SyncRun`.
    """
    waiting = {tp: (part.position, part.readable_end) for tp, part in parts.items() if part.lag and part.is_end_known}
    ends = {tp: part.readable_end for tp, part in parts.items() if part.is_end_known}
    positions = {tp: part.position for tp, part in parts.items()}
    return lags(
        positions,
        ends,
        oldest(waiting) if waiting else {},
        int(time.time() * 1000),
        longest_waits(parts, time.monotonic()),
    )


def _ends(parts: Mapping[int, PartitionProgress]) -> dict[int, int]:
    """Where the source ends; where it has not said, it is seen as far as it is copied."""
    return {n: max(part.readable_end, part.position) for n, part in parts.items()}


def _since(before: int | None, now: Iterable[int]) -> int | None:
    """By how much a sum has grown; a position that was set back by hand is no growth."""
    return None if before is None else max(0, sum(now) - before)


def _covers(parts: Mapping[int, PartitionProgress], ends: Mapping[int, int]) -> bool:
    """Whether the partitions have come so far; a topic created anew meanwhile may have fewer."""
    return all(parts[n].position >= end for n, end in ends.items() if n in parts)
