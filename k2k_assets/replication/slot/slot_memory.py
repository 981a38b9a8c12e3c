"""What outlives a session of a slot: nothing that progress depends on. Each part has one owner that writes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.byte_budget import ByteBudget


@dataclass(slots=True)
class ClaimHistory:
    """What `SlotClaims` has claimed in all sessions, and has lost to others.

    Attributes:
        written: Ids of all claims that the slot has written.
        last_offset: Offset of the last of them; -1 if there is none.
        superseded_by: Partitions that somebody else has a better right to, with who that is.
        is_superseded: Whether another attempt of this slot has taken its place.
    """

    written: set[str] = field(default_factory=set)
    last_offset: int = -1
    superseded_by: dict[TopicPartition, str] = field(default_factory=dict)
    is_superseded: bool = False


@dataclass(slots=True)
class StoppedPartitions:
    """The partitions that the slot has stopped; the first reason of each stays.

    Attributes:
        reasons: Why each was stopped.
    """

    reasons: dict[TopicPartition, StopReason] = field(default_factory=dict)
    _unnoted: set[TopicPartition] = field(default_factory=set)

    def stop(self, tp: TopicPartition, reason: StopReason, is_noted: bool = True) -> None:
        """Stops a partition.

        Args:
            tp: The source partition.
            reason: Why.
            is_noted: Whether the commit topic is to be told.
        """
        if self.reasons.setdefault(tp, reason) is reason and not is_noted:
            self._unnoted.add(tp)

    def to_note(self) -> dict[TopicPartition, StopReason]:
        """Those that the commit topic is to be told of."""
        return {tp: reason for tp, reason in self.reasons.items() if tp not in self._unnoted}


@dataclass(slots=True)
class StallHistory:
    """Sessions that ended because nothing came of what the source had (`SilentSourceWatch`)."""

    _in_a_row: int = 0
    _commits: int = 0

    def since(self, commits: int) -> int:
        """How many there were in a row since the last commit.

        Args:
            commits: How many transactions the slot has committed by now.
        """
        return self._in_a_row if commits == self._commits else 0

    def add(self, commits: int) -> None:
        """Notes one more."""
        self._in_a_row, self._commits = self.since(commits) + 1, commits


@dataclass(slots=True)
class SlotMemory:
    """All of it.

    Attributes:
        started: When the slot began, monotonic seconds.
        claims: Claims of all sessions.
        stopped: Partitions that were stopped.
        stalls: Sessions that got nothing.
        offline_since: Partitions that `LeftOut` leaves out for lack of a leader, with since when, monotonic seconds.
        hanging: Transactions of others that were told of, by target partition and first offset.
        budget: How much a transaction may hold.
        sequence: Of the last transaction; it only has to rise.
        commits: Transactions that closed well: tells whether there is any progress.
        told_to_stop: Since when the slot knows that it is to stop, monotonic seconds; None if it does not.
    """

    started: float
    claims: ClaimHistory = field(default_factory=ClaimHistory)
    stopped: StoppedPartitions = field(default_factory=StoppedPartitions)
    stalls: StallHistory = field(default_factory=StallHistory)
    offline_since: dict[TopicPartition, float] = field(default_factory=dict)
    hanging: set[tuple[TopicPartition, int]] = field(default_factory=set)
    budget: ByteBudget = field(default_factory=ByteBudget)
    sequence: int = 0
    commits: int = 0
    told_to_stop: float | None = None
