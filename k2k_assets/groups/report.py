"""The result of one poll of the mapper, for log lines, for the asset's metadata, and for tests. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from k2k_assets.control.group_versions import Version
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.kafka.groups import Ends
from k2k_assets.mapping.algebra.partition_map import SourcePartition


class Place(NamedTuple):
    """A group's position in one partition.

    Attributes:
        partition: The partition.
        offset: Next offset to read.
        left: Offsets from there to the last stable offset; None if that is not known.
    """

    partition: TopicPartition
    offset: int
    left: int | None


class Line(NamedTuple):
    """The result for one target partition of a group.

    Attributes:
        partition: The target partition.
        target: The group's translated position there; None if there is no answer.
        sources: The source partitions that feed it, with the group's position in each.
        decision: The decision.
        committed: Whether this poll committed the position.
        metadata: The application's own commit metadata on the source; empty for most groups.
        again: Number of records that the group reads again, as far as the mappings tell.
    """

    partition: TopicPartition
    target: Place | None
    sources: tuple[Place, ...]
    decision: CommitDecision
    committed: bool
    metadata: str
    again: int = 0

    @property
    def left_on_source(self) -> int | None:
        """Sum of the offsets left in its source partitions; None if one of them is not known."""
        known = [source.left for source in self.sources if source.left is not None]
        return sum(known) if len(known) == len(self.sources) else None


@dataclass(frozen=True)
class PollResult:
    """The result of one poll.

    Attributes:
        version: Version of this observation.
        decisions: Decisions by group.
        committed: Groups that this poll committed.
        active: Groups that got members between the decision and the commit, so that nothing was committed.
        failed: Groups that could not be read, or whose commit is uncertain, each with the reason; the next poll tries
            them again.
        not_handled: Selected groups on the source that are no consumer groups (share groups).
        absent: Groups that are selected by name, and are not on the source.
        without_commits: Number of selected groups on the source without a commit on a mapped topic.
        source_ends: Last stable offset of each source partition.
        target_ends: Log start and last stable offset of each target partition.
        offline_partitions: Partitions on either side without a leader, with the reason. Positions in such a target
            partition are unknown; those in such a source partition are only where its log was cut off before.
        moved_by: The mapper that moves the groups, if this poll only looked at them; else empty.
        held_back: Why the groups are held back; empty if they are not.
        unproven: Target partitions in which positions are unknown because others write there, because copies are lost,
            or because the source has lost what was copied, with the reason and what to do.
        repeated_back: Target partitions whose records the pipeline back may have copied more than once.
        seconds: Duration of the poll.
        mapped_ends: The source offset up to which the mappings of each source partition are known.
        records_read: Number of mapping records that this mapper has read so far.
    """

    version: Version
    decisions: Mapping[str, GroupDecision] = field(default_factory=dict)
    committed: frozenset[str] = frozenset()
    active: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)
    not_handled: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    without_commits: int = 0
    source_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    target_ends: Mapping[TopicPartition, Ends] = field(default_factory=dict)
    offline_partitions: Mapping[TopicPartition, str] = field(default_factory=dict)
    moved_by: str = ""
    held_back: str = ""
    unproven: Mapping[TopicPartition, str] = field(default_factory=dict)
    repeated_back: frozenset[TopicPartition] = frozenset()
    seconds: float = 0.0
    mapped_ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    records_read: int = 0

    @property
    def groups(self) -> list[str]:
        """The groups with an answer, by name."""
        return sorted(self.decisions)

    def lines(self, group: str) -> list[Line]:
        """The positions of a group, in the order of the target partitions."""
        return [self._line(group, row) for row in self.decisions[group].rows]

    def left(self, group: str) -> tuple[int, int]:
        """Offsets that a group has left to read on the source, and on the target from its translated positions."""
        lines = self.lines(group)
        sources = {source for line in lines for source in line.sources}
        return sum(source.left or 0 for source in sources), sum(line.target.left or 0 for line in lines if line.target)

    @cached_property
    def decision_counts(self) -> Counter[CommitDecision]:
        """Number of partitions of all groups for each decision."""
        return Counter(decision for group in self.decisions for decision in self.decisions_of(group))

    def decisions_of(self, group: str) -> Iterator[CommitDecision]:
        """The decision on each position of a group."""
        return (self._decision(group, row) for row in self.decisions[group].rows)

    def _decision(self, group: str, row: Row) -> CommitDecision:
        return CommitDecision.ACTIVE if row.commit and group in self.active else row.decision

    def _line(self, group: str, row: Row) -> Line:
        target = None
        if row.offset >= 0:
            ends = self.target_ends.get(row.target)
            target = Place(row.target, row.offset, None if ends is None else max(0, ends.end - row.offset))
        sources = tuple(
            Place(partition, committed.offset, _left(self.source_ends.get(partition), committed.offset))
            for partition, committed in row.sources
        )
        done = row.commit and group in self.committed
        return Line(row.target, target, sources, self._decision(group, row), done, row.metadata, row.again)


def _left(end: int | None, offset: int) -> int | None:
    return None if end is None else max(0, end - offset)


@dataclass(frozen=True, slots=True)
class PollFailed:
    """A failed poll; the mapper tries again.

    Attributes:
        reason: The error.
    """

    reason: str
