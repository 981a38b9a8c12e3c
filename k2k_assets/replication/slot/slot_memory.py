"""The state of a slot that outlives its sessions. Progress does not depend on it. One class writes each part of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.byte_budget import ByteBudget


@dataclass(slots=True)
class ClaimHistory:
    """The claims of all sessions, and the partitions that others have taken over; written by `SlotClaims`.

    Attributes:
        written: Claim ids of all claims that the slot has written.
        last_offset: Offset of the last claim that it has written; -1 if there is none.
        superseded_by: Partitions of which another instance has a higher claim, with that instance.
        is_superseded: Whether another attempt of this slot has taken its place.
    """

    written: set[str] = field(default_factory=set)
    last_offset: int = -1
    superseded_by: dict[TopicPartition, str] = field(default_factory=dict)
    is_superseded: bool = False


@dataclass(slots=True)
class StoppedPartitions:
    """The partitions that the slot has stopped; each keeps its first reason.

    Attributes:
        reasons: Stop reasons by partition.
        released: Those whose claims are released, because their stop is in the commit topic.
    """

    reasons: dict[TopicPartition, StopReason] = field(default_factory=dict)
    released: set[TopicPartition] = field(default_factory=set)
    _unnoted: set[TopicPartition] = field(default_factory=set)

    def stop(self, tp: TopicPartition, reason: StopReason, is_noted: bool = True) -> None:
        """Stops a partition.

        Args:
            tp: The source partition.
            reason: The stop reason.
            is_noted: Whether to write the stop to the commit topic.
        """
        if self.reasons.setdefault(tp, reason) is reason and not is_noted:
            self._unnoted.add(tp)

    def to_note(self) -> dict[TopicPartition, StopReason]:
        """The stops to write to the commit topic."""
        return {tp: reason for tp, reason in self.reasons.items() if tp not in self._unnoted}


@dataclass(slots=True)
class StallHistory:
    """Counts sessions that `SilentSourceWatch` ended, because the client did not return records that the source had."""

    _in_a_row: int = 0
    _commits: int = 0

    def since(self, commits: int) -> int:
        """Number of such sessions since the last commit.

        Args:
            commits: Number of transactions that the slot has committed by now.
        """
        return self._in_a_row if commits == self._commits else 0

    def add(self, commits: int) -> None:
        """Counts one more such session; a commit since the last one starts the count anew."""
        self._in_a_row, self._commits = self.since(commits) + 1, commits


@dataclass(slots=True)
class SlotMemory:
    """All state of a slot that outlives its sessions.

    Attributes:
        started: When the slot began, monotonic seconds.
        claims: Claims of all sessions.
        stopped: Stopped partitions.
        stalls: Sessions that ended because of a silent client.
        offline_since: Partitions that `LeftOut` leaves out because they have no leader, with since when, in monotonic
            seconds.
        paused: Partitions that the last session left out because their topics were paused.
        hanging: Transactions of others that were logged, by target partition and first offset.
        budget: Size limit for transactions.
        sequence: Sequence of the last transaction; it only has to rise.
        commits: Number of committed transactions, by which the slot sees its progress.
        transport: How the slot brings records, as commit records note it.
        told_to_stop: When the slot saw its stop record, in monotonic seconds; None if it has not.
    """

    started: float
    claims: ClaimHistory = field(default_factory=ClaimHistory)
    stopped: StoppedPartitions = field(default_factory=StoppedPartitions)
    stalls: StallHistory = field(default_factory=StallHistory)
    offline_since: dict[TopicPartition, float] = field(default_factory=dict)
    paused: frozenset[TopicPartition] = frozenset()
    hanging: set[tuple[TopicPartition, int]] = field(default_factory=set)
    budget: ByteBudget = field(default_factory=ByteBudget)
    sequence: int = 0
    commits: int = 0
    transport: str | None = None
    told_to_stop: float | None = None
