"""What a content check has found so far: outcomes of records, and what was done in each partition. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.verification.pieces import ComparedPiece
from k2k_assets.verification.unmapped import Span
from k2k_assets.verification.verdict import SHOWN, Offender
from k2k_assets.verification.verified import Compared

EQUAL, GONE, HELD, SKIPPED = "equal", "gone", "held", "skipped by hand"
OTHER = "copied under settings that were not noted"
NO_FAULT = (EQUAL, GONE, HELD, SKIPPED, OTHER)
DIFFERENT = "differs in content from its copy"
NOT_COPIED = "is on the source, but was not copied"
NO_SOURCE = "is mapped, but there is no such record on the source"
NO_TARGET = "is mapped, but there is no such record on the target"
BEYOND = "is mapped beyond the target's high watermark"
UNMAPPED = "is on the target between two copies, and no source record is mapped to it: doubled, or of somebody else"


class OutcomeCount(NamedTuple):
    """How often an outcome was met in one source partition, and between which source offsets."""

    topic: str
    partition: int
    outcome: str
    records: int
    first: int
    last: int


@dataclass(slots=True)
class Tally:
    """What was found so far.

    Attributes:
        counted: Records, by outcome.
        pieces: Pieces that were looked at.
        compared: By source partition.
        uncertain: Unmapped records that may be there.
        offenders: The first rows that offend.
    """

    counted: Counter[str] = field(default_factory=Counter)
    pieces: int = 0
    compared: defaultdict[TopicPartition, Compared] = field(default_factory=lambda: defaultdict(Compared))
    uncertain: int = 0
    offenders: list[Offender] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """Records that offend."""
        return sum(count for outcome, count in self.counted.items() if outcome not in NO_FAULT)

    def add_pieces(self, pieces: Sequence[ComparedPiece]) -> None:
        """Notes pieces that were compared."""
        self.pieces += len(pieces)
        for piece in pieces:
            self.compared[TopicPartition(piece.topic, piece.partition)].ranges.append(Covered(piece.start, piece.end))

    def add_outcomes(self, counts: Iterable[OutcomeCount]) -> None:
        """Notes the outcomes of their records."""
        for each in counts:
            self.counted[each.outcome] += each.records
            compared = self.compared[TopicPartition(each.topic, each.partition)]
            compared.is_held |= each.outcome == HELD
            if each.outcome not in NO_FAULT:
                compared.bad.append(Covered(each.first, each.last + 1))

    def add_unmapped(self, found: Sequence[tuple[Span, int]], pieces: Sequence[ComparedPiece]) -> None:
        """Notes target records that nothing is mapped to.

        Args:
            found: Each with what it lies in.
            pieces: Those that were compared with them: which records of one it lies between nobody looks for.
        """
        ends = {(piece.topic, piece.partition, piece.start): piece.end for piece in pieces}
        for span, offset in found:
            if not span.alone:
                self.uncertain += 1
                continue
            self.counted[UNMAPPED] += 1
            of_piece = Covered(span.piece, ends[span.topic, span.partition, span.piece])
            bad = self.compared[TopicPartition(span.topic, span.partition)].bad
            if of_piece not in bad:
                bad.append(of_piece)
            if len(self.offenders) < SHOWN:
                at = f"{span.target_topic}-{span.target_partition}@{offset}"
                place = span.topic, span.partition, None, span.target_topic, span.target_partition, offset
                self.offenders.append(Offender(f"{at} {UNMAPPED}", *place))

    def note_left(self, first: Sequence[ComparedPiece], second: Sequence[ComparedPiece]) -> None:
        """Notes of each partition how much of what was planned was not reached."""
        for piece in self._not_done(first):
            self.compared[TopicPartition(piece.topic, piece.partition)].first_left += 1
        for piece in self._not_done(second):
            self.compared[TopicPartition(piece.topic, piece.partition)].second_left += 1

    def _not_done(self, pieces: Iterable[ComparedPiece]) -> list[ComparedPiece]:
        """Those of partitions of which others were compared."""
        done = {(*tp, *each) for tp, compared in self.compared.items() for each in compared.ranges}
        return [piece for piece in pieces if (piece.topic, piece.partition) in self.compared and piece[:4] not in done]
