"""Reports from inside a run that copies without end which topics are later than `sync.freshness`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from k2k_assets.core.topic_partition import TopicPartition, by_topic
from k2k_assets.orchestration.checks.evaluations import DoubtingVerdictSink, evaluations
from k2k_assets.orchestration.checks.topic_checks import freshness_check_keys
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.replication.driver.progress import PartitionProgress, Progress
from k2k_assets.status.freshness import check_keeps_up, not_known
from k2k_assets.status.lag import PartitionLag
from k2k_assets.verification.verdict import Judgement, Verdict

LOOK_SECONDS = 30.0
_SOON_SECONDS = 2.0


@dataclass(slots=True)
class FreshnessReports:
    """Looks each half minute, and reports topics that have become late, or are late no more.

    Attributes:
        names: The pipeline's names.
        limit: `sync.freshness` in seconds.
        interval: Seconds after which every verdict is compared with the one that Dagster shows.
        lags: Lag of some partitions.
        verdicts: Receives the verdicts.
    """

    names: AssetNames
    limit: float
    interval: float
    lags: Callable[[Mapping[TopicPartition, PartitionProgress]], Mapping[TopicPartition, PartitionLag]]
    verdicts: DoubtingVerdictSink
    _next: float = 0.0
    _next_of_all: float = 0.0
    _reported: dict[str, Judgement] = field(default_factory=dict)
    _without_end: dict[str, float] = field(default_factory=dict)

    def report_when_due(self, progress: Progress, now: float) -> None:
        """Looks if it is time.

        Args:
            progress: The progress of the copy.
            now: Monotonic seconds.
        """
        if not progress.partitions or now < self._next:
            return
        self._next = now + LOOK_SECONDS
        if now >= self._next_of_all:
            self._next_of_all = now + self.interval
            self._reported.clear()
        known = self.lags(progress.partitions)
        if new := self._perhaps_late(known, progress, now):
            self._next = now + _SOON_SECONDS
        found = {
            topic: verdict
            for topic, lags in by_topic({**known, **new}).items()
            if (verdict := check_keeps_up(topic, lags, self.limit, progress.paused.get(topic))) is not None
        }
        doubts = {topic: doubt for topic, doubt in self._doubts(progress, now).items() if topic not in found}
        for verdicts, give in ((found, self.verdicts.give_unless_shown), (doubts, self.verdicts.give_doubts)):
            turns = {t: verdict for t, verdict in verdicts.items() if self._reported.get(t) != verdict.judgement}
            if turns:
                topics = {tp.topic for tp in progress.partitions}
                give(evaluations(freshness_check_keys(self.names, topics), turns))
                self._reported |= {topic: verdict.judgement for topic, verdict in turns.items()}

    def _perhaps_late(
        self, lags: Mapping[TopicPartition, PartitionLag], progress: Progress, now: float
    ) -> dict[TopicPartition, PartitionLag]:
        """What is late by timestamps alone, and is looked at for the first time: it may have come a moment ago."""
        return {
            tp: replace(lag, seconds=None)
            for tp, lag in lags.items()
            if lag.seconds is not None and lag.seconds > self.limit
            if (looks := progress.partitions[tp].looks) is not None and looks.are_new(now)
        }

    def _doubts(self, progress: Progress, now: float) -> dict[str, Verdict]:
        """Doubts about topics of which the source has not told an end for longer than the limit."""
        silent = {tp.topic for tp, p in progress.partitions.items() if not (p.is_end_known or p.stopped)}
        self._without_end = {topic: self._without_end.get(topic, now) for topic in silent}
        return {
            topic: not_known(topic, self.limit, "the source does not tell where its partitions end")
            for topic, since in self._without_end.items()
            if now - since > self.limit
        }
