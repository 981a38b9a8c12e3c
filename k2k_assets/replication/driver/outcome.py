"""The outcome of a replication, from the commit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import forms_of
from k2k_assets.control.pause_records import Pause
from k2k_assets.core.stops.reason import StopReason, Stops
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.replication.driver.progress import PartitionProgress, ProgressReader


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """The outcome for one source partition.

    Attributes:
        start: Position when the replication began.
        position: Position at its end.
        target_end: Target offset after the last record copied; None where several partitions are fed, or none yet.
        readable_end: `Pipeline.readable_end` of the source at the last look; `END_UNKNOWN` if it never answered.
        records: Records copied.
        bytes: Value bytes copied.
        runs: Runs written to mapping records.
    """

    start: int
    position: int
    target_end: int | None
    readable_end: int
    records: int
    bytes: int
    runs: int

    @property
    def lag(self) -> int:
        """Source offsets between the position and the readable end; 0 if the end is not known."""
        return max(0, self.readable_end - self.position)

    @property
    def is_end_known(self) -> bool:
        """Whether the source has told its end; if not, a lag of 0 means nothing."""
        return self.readable_end != END_UNKNOWN


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The outcome for one source topic, with sums over its partitions.

    Attributes:
        target_topic: Target topic.
        partitions: Outcomes by source partition.
        stopped: Stop reasons of its partitions; empty if none was stopped.
        seconds: Duration of the replication.
        paused: The topic's pause; None if it is not paused.
        topic_id: Id of the source topic that was copied; empty if its partitions do not agree, or none has a position.
        form: How its records were brought, see `forms_of`.
    """

    target_topic: str
    partitions: dict[int, PartitionOutcome]
    stopped: Stops
    seconds: float
    paused: Pause | None = None
    topic_id: str = ""
    form: str = ""

    @property
    def records(self) -> int:
        """Records copied from all partitions."""
        return sum(p.records for p in self.partitions.values())

    @property
    def bytes(self) -> int:
        """Value bytes copied from all partitions."""
        return sum(p.bytes for p in self.partitions.values())

    @property
    def runs(self) -> int:
        """Runs written to mapping records for all partitions."""
        return sum(p.runs for p in self.partitions.values())

    @property
    def lag(self) -> int:
        """Sum of the partitions' lags, as far as their ends are known."""
        return sum(p.lag for p in self.partitions.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a replication.

    Attributes:
        topics: Outcomes by source topic.
        generation: Last generation of the instance.
        seconds: Its duration.
    """

    topics: dict[str, TopicOutcome] = field(default_factory=dict)
    generation: int = -1
    seconds: float = 0.0

    @property
    def stopped(self) -> dict[str, Stops]:
        """Topics with stopped partitions, with the reasons."""
        return {name: topic.stopped for name, topic in self.topics.items() if topic.stopped}


def outcome_of(
    topics: Mapping[str, tuple[str, int]],
    commit_log: CommitLog,
    progress: ProgressReader,
    stopped: Mapping[TopicPartition, StopReason],
    generation: int,
    seconds: float,
    paused: Mapping[str, Pause] = MappingProxyType({}),
) -> Outcome:
    """Sums up a replication.

    Args:
        topics: Source topic -> target topic and number of source partitions.
        commit_log: The commit log at the end.
        progress: Counts the copied records.
        stopped: Stopped partitions, with the reasons.
        generation: Last generation of the instance.
        seconds: Duration of the replication.
        paused: Paused topics.
    """
    partitions = progress.current().partitions
    outcomes: dict[str, TopicOutcome] = {}
    for topic, (target_topic, count) in topics.items():
        names = [TopicPartition(topic, p) for p in range(count)]
        of_topic = {
            tp.partition: _partition_outcome(partitions[tp], progress.starts.get(tp), _target_end(commit_log, tp))
            for tp in names
        }
        reasons: Stops = {tp.partition: stopped[tp] for tp in names if tp in stopped}
        records = [commit_log.positions[tp] for tp in names if tp in commit_log.positions]
        ids = {record.source_topic_id for record in records}
        topic_id = ids.pop() if len(ids) == 1 else ""
        form = forms_of(record.form for record in records)
        outcomes[topic] = TopicOutcome(target_topic, of_topic, reasons, seconds, paused.get(topic), topic_id, form)
    return Outcome(outcomes, generation, seconds)


def _target_end(commit_log: CommitLog, tp: TopicPartition) -> int | None:
    record = commit_log.positions.get(tp)
    return record.target_end if record else None


def _partition_outcome(progress: PartitionProgress, start: int | None, target_end: int | None) -> PartitionOutcome:
    return PartitionOutcome(
        start=progress.position if start is None else start,
        position=progress.position,
        target_end=target_end,
        readable_end=progress.readable_end,
        records=progress.records,
        bytes=progress.bytes,
        runs=progress.runs,
    )
