"""The status of a copy, topic by topic, from positions, lags and history. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from k2k_assets.control.commit_record import CommitRecord, forms_of
from k2k_assets.control.pause_records import Pause
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition, by_topic
from k2k_assets.status.history import CopyHistory
from k2k_assets.status.lag import PartitionLag, TotalLag, total_lag

State = Literal["stopped", "paused", "not begun", "behind", "active", "quiet"]


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """The status of one source topic.

    Attributes:
        topic: The source topic.
        target: The target topic; None if the pipeline's routing names none.
        partitions: Lag of each partition.
        stopped: Stop reasons of stopped partitions.
        last_commit: Time of its newest commit record, milliseconds since the epoch; None if there is none.
        rate: Records per second over the last minute.
        history: Records copied in each step of the last minutes, the newest step last.
        paused: Its pause; None if it is not paused.
        form: How its records were brought last, see `forms_of`; empty if none were.
    """

    topic: str
    target: str | None
    partitions: Mapping[int, PartitionLag]
    stopped: Mapping[int, StopReason]
    last_commit: int | None
    rate: float
    history: list[int]
    paused: Pause | None = None
    form: str = ""

    @property
    def lag(self) -> TotalLag:
        """Total lag of its partitions."""
        return total_lag(self.partitions.values())

    @property
    def state(self) -> State:
        """The status in one word; the first that fits."""
        if self.stopped:
            return "stopped"
        if self.paused:
            return "paused"
        if self.last_commit is None:
            return "not begun"
        if self.lag.offsets or self.lag.unknown:
            return "behind"
        return "active" if any(self.history) else "quiet"


@dataclass(frozen=True, slots=True)
class MovedGroup:
    """A selected consumer group with a commit on a copied topic of the source.

    Attributes:
        name: Name of the group.
        source: Its committed offsets on the source, in copied topics only.
        target: Its committed offsets on the target, in all topics; empty if it is not there yet.
    """

    name: str
    source: Mapping[TopicPartition, int]
    target: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class MovedGroups:
    """The consumer groups that the pipeline moves.

    Attributes:
        groups: The groups, by name.
        unknown: Why they are not known; empty if they are.
    """

    groups: tuple[MovedGroup, ...] = ()
    unknown: str = ""

    @property
    def selected(self) -> int:
        """Number of groups."""
        return len(self.groups)

    @property
    def on_target(self) -> int:
        """Number of these groups with a commit on the target too."""
        return sum(bool(group.target) for group in self.groups)


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """The status of a pipeline.

    Attributes:
        time: Time of the look, milliseconds since the epoch.
        topics: All copied topics, by name.
        groups: The groups that the pipeline moves; None if it moves none.
    """

    time: int
    topics: list[CopiedTopic]
    groups: MovedGroups | None

    @property
    def lag(self) -> TotalLag:
        """Total lag of all topics."""
        return total_lag(lag for topic in self.topics for lag in topic.partitions.values())

    @property
    def rate(self) -> float:
        """Records per second over the last minute."""
        return sum(topic.rate for topic in self.topics)

    @property
    def last_commit(self) -> int | None:
        """Time of the newest commit record, milliseconds since the epoch; None if there is none."""
        return max((topic.last_commit for topic in self.topics if topic.last_commit is not None), default=None)

    def having(self, *states: State) -> list[CopiedTopic]:
        """The topics in these states, by name."""
        return [topic for topic in self.topics if topic.state in states]


def copied_topics(
    lags: Mapping[TopicPartition, PartitionLag],
    records: Mapping[TopicPartition, CommitRecord],
    stopped: Mapping[TopicPartition, StopReason],
    targets: Mapping[str, str | None],
    history: CopyHistory,
    now: int,
    paused: Mapping[str, Pause] = MappingProxyType({}),
) -> list[CopiedTopic]:
    """Makes the status of each topic, by name.

    Args:
        lags: Lags of all partitions.
        records: Newest commit record of each partition.
        stopped: Stopped partitions, with the reasons.
        targets: Target topic of each source topic.
        history: The recently copied records.
        now: Milliseconds since the epoch.
        paused: Paused source topics.
    """
    return [
        CopiedTopic(
            topic=topic,
            target=targets.get(topic),
            partitions=partitions,
            stopped={p: stopped[TopicPartition(topic, p)] for p in partitions if TopicPartition(topic, p) in stopped},
            last_commit=_last_commit(records.get(TopicPartition(topic, p)) for p in partitions),
            rate=history.rate(topic, now),
            history=history.steps(topic, now),
            paused=paused.get(topic),
            form=forms_of(record.form for p in partitions if (record := records.get(TopicPartition(topic, p)))),
        )
        for topic, partitions in by_topic(lags).items()
    ]


def _last_commit(records: Iterable[CommitRecord | None]) -> int | None:
    return max((record.time for record in records if record is not None), default=None)
