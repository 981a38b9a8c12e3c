"""The source no longer holds the offsets that were copied, or are to be copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import set_command
from k2k_assets.core.stops.reason import ORDERS, StopReason
from k2k_assets.core.topic_partition import TopicPartition


@dataclass(frozen=True)
class RecordsDeleted(StopReason, code="records-deleted"):
    """The source deleted records before they were copied.

    Attributes:
        source: The source partition.
        position: The next offset to copy.
        log_start: The first offset that the source holds.
    """

    title = "records were deleted from the source before they were copied"
    meaning = (
        "Retention, or `kafka-delete-records.sh`, was faster than the copy. What is gone cannot be copied any more."
    )
    advice = (
        "`earliest` goes on at the log start; the range that is gone is noted as skipped. Then raise `retention.ms` of "
        "the source topic, or let the pipeline run without long breaks."
    )

    source: TopicPartition
    position: int
    log_start: int

    def found(self) -> str:
        return (
            f"records {self.position} to {self.log_start - 1} were deleted from the source before they were copied "
            f"(retention, or delete-records): it now starts at {self.log_start}"
        )

    def to_do(self) -> str:
        return f"To go on without them: {set_command(*self.source, 'earliest')}"

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, position=3, log_start=8)


@dataclass(frozen=True)
class SourceTruncated(StopReason, code="source-truncated"):
    """The source ends before the position.

    Attributes:
        source: The source partition.
        position: The next offset to copy.
        log_end: The offset after the last one that the source holds.
    """

    title = "the source was truncated: it ends before the position"
    meaning = (
        "The source lost records that were copied, for example by an unclean leader election. The target holds records "
        "that are no longer on the source."
    )
    advice = (
        "`latest` goes on with what is written from now on. If you know where the log was cut off, give that offset: "
        "what was written since is copied too."
    )

    source: TopicPartition
    position: int
    log_end: int

    def found(self) -> str:
        return (
            f"the source ends at {self.log_end}, before position {self.position}: its log was truncated, and what was "
            "copied from there on no longer exists on the source"
        )

    def to_do(self) -> str:
        return (
            f"To go on with what is written from now on: {set_command(*self.source, 'latest')}; or give the offset "
            "from which the source holds other records than were copied"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, position=100, log_end=40)


@dataclass(frozen=True)
class StartOutsideLog(StopReason, code="start-outside-log"):
    """The pipeline file says where to begin, and the source has no such offset.

    Attributes:
        source: The source partition.
        position: Where to begin.
        log_start: The first offset that the source holds.
        log_end: The offset after the last one.
    """

    title = "`start` names an offset that the source does not have"
    meaning = (
        "The partition was never copied, and `replication[].source.start` gives it an offset before the log start or "
        "behind the end. Nothing was copied, and nothing is lost."
    )
    advice = "Correct `start` in the pipeline file. Or set the position by hand: from then on `start` no longer counts."

    source: TopicPartition
    position: int
    log_start: int
    log_end: int

    def found(self) -> str:
        return (
            f"replication[].source.start says that {self.source} begins at {self.position}, but the source holds "
            f"offsets from {self.log_start} to {self.log_end}"
        )

    def to_do(self) -> str:
        return f"Correct it, or begin at the log start: {set_command(*self.source, 'earliest')}"

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, position=5, log_start=8, log_end=40)


@dataclass(frozen=True)
class SourceDiverged(StopReason, code="source-diverged"):
    """The source log was truncated below the position and has grown again.

    Attributes:
        source: The source partition.
        position: The next offset to copy.
        epoch_end: Where the leader epoch of what was copied ends now; None if that is not known.
        words: What the client said.
    """

    title = "the source was truncated and has grown again"
    meaning = (
        "The leader epoch tells it (KIP-320). From the cut-off on the source holds other records than were copied, "
        "though the offsets are the same."
    )
    advice = (
        "The offset of the cut-off copies what is there now from there on, behind what was copied. The position goes "
        "on without it."
    )

    source: TopicPartition
    position: int
    epoch_end: int | None
    words: str = ""

    def found(self) -> str:
        if self.epoch_end is None:
            return (
                f"the source log was truncated below position {self.position} and has grown again ({self.words}): what "
                "is copied is no longer what the source holds"
            )
        return (
            f"the source log was truncated at {self.epoch_end}, below position {self.position}, and has grown again "
            f"(leader epoch): records {self.epoch_end} to {self.position - 1} that were copied are no longer those of "
            "the source"
        )

    def to_do(self) -> str:
        if self.epoch_end is None:
            return f"To go on: {set_command(*self.source, 'OFFSET')} with the offset at which it was cut off"
        return (
            f"To copy what is there now, behind what was copied: {set_command(*self.source, self.epoch_end)}; to go on "
            f"without it: {set_command(*self.source, self.position)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, position=100, epoch_end=40)


@dataclass(frozen=True)
class LaterLeaderEpoch(StopReason, code="later-leader-epoch"):
    """The source is now read uncommitted: below the position may lie records that were left out, or are new.

    Attributes:
        source: The source partition.
        first: Offset of the first of them.
        position: Where copying goes on.
    """

    title = "records before the position are of a later leader epoch"
    meaning = (
        "`isolation.level` was changed to `read_uncommitted`, and the source did not say in time whether the records "
        "are aborted ones, which need no copy, or others."
    )
    advice = "The position goes on without them; the offset of the first one copies them."

    source: TopicPartition
    first: int
    position: int

    def found(self) -> str:
        return (
            f"the records from {self.first} to {self.position - 1} of the source, before the position, are of a later "
            "leader epoch than what was copied last. Either they are aborted ones, left out while isolation.level was "
            "read_committed, or the source log was truncated there and has grown again; the source did not say in time "
            "which"
        )

    def to_do(self) -> str:
        return (
            f"To go on without them: {set_command(*self.source, self.position)}; to copy them: "
            f"{set_command(*self.source, self.first)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, first=96, position=100)


@dataclass(frozen=True)
class OffsetOutOfRange(StopReason, code="offset-out-of-range"):
    """The source refuses the offset and does not say which range it holds.

    Attributes:
        source: The source partition.
        offset: Which was asked for.
        words: What the source said.
    """

    title = "the source no longer holds the offset"
    meaning = "Records were deleted or the log was truncated; the source did not say which range it holds now."
    advice = (
        "`earliest` goes on at the log start. First look with `k2k-tool describe` whether the source answers again."
    )

    source: TopicPartition
    offset: int
    words: str

    def found(self) -> str:
        return (
            f"the source no longer holds offset {self.offset} ({self.words}): records were deleted or the log was "
            "truncated before they were copied"
        )

    def to_do(self) -> str:
        return f"To go on at what it begins with now: {set_command(*self.source, 'earliest')}"

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, offset=100, words="Broker: Offset out of range")
