"""The tally of a content check: outcomes of records, and the compared ranges of each partition. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.unmapped import Span
from k2k_assets.verification.content.verified import Compared
from k2k_assets.verification.verdict import SHOWN, Offender

EQUAL, GONE, HIDDEN = "equal", "gone", "cannot be read now"
OTHER = "copied under settings that were not noted"
NO_SCHEMA = "has a schema that its registry does not have any more"
NO_SCHEMA_ON_TARGET = "has a schema that the source's registry has, and whose copy the target's does not know"
OTHER_RULES = "has a schema that the target's registry has without all of its rules"
DROPPED = "left out by a rule"
NO_FAULT = (EQUAL, GONE, HIDDEN, OTHER, NO_SCHEMA, NO_SCHEMA_ON_TARGET, OTHER_RULES, DROPPED)
DIFFERENT = "differs in content from its copy"
NOT_COPIED = "is on the source, but was not copied"
DROPPED_WRONGLY = "was left out by a rule that does not leave it out"
NOT_DROPPED = "was copied, but a rule leaves it out"
NO_SOURCE = "is mapped, but there is no such record on the source"
NO_TARGET = "is mapped, but there is no such record on the target"
BEYOND = "is mapped beyond the target's high watermark"
UNMAPPED = "is on the target between two copies, and no source record is mapped to it: doubled, or of somebody else"


class OutcomeCount(NamedTuple):
    """The number of records with an outcome in one source partition, and the first and last of their offsets."""

    topic: str
    partition: int
    outcome: str
    records: int
    first: int
    last: int


@dataclass(slots=True)
class Tally:
    """The results so far.

    Attributes:
        counted: Number of records by outcome.
        pieces: Number of pieces that were compared by records.
        offsets: Number of source offsets in them.
        proven_pieces: Number of pieces that were compared by batches.
        proven_records: Number of records in them; all are equal, and counted as such.
        compared: Compared ranges by source partition.
        uncertain: Number of unmapped records where others may write.
        offenders: The first offending rows.
    """

    counted: Counter[str] = field(default_factory=Counter)
    pieces: int = 0
    offsets: int = 0
    proven_pieces: int = 0
    proven_records: int = 0
    compared: defaultdict[TopicPartition, Compared] = field(default_factory=lambda: defaultdict(Compared))
    uncertain: int = 0
    offenders: list[Offender] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """Number of offending records."""
        return sum(count for outcome, count in self.counted.items() if outcome not in NO_FAULT)

    def add_pieces(self, pieces: Sequence[ComparedPiece]) -> None:
        """Adds pieces that are compared by records."""
        self.pieces += len(pieces)
        self.offsets += sum(piece.end - piece.start for piece in pieces)
        self._add_ranges(pieces)

    def add_proven(self, pieces: Sequence[ComparedPiece]) -> None:
        """Adds pieces that were proven to be equal by batches."""
        self.proven_pieces += len(pieces)
        self._add_ranges(pieces)

    def add_equal(self, records: int) -> None:
        """Adds the records of such pieces."""
        self.proven_records += records
        self.counted[EQUAL] += records

    def _add_ranges(self, pieces: Sequence[ComparedPiece]) -> None:
        for piece in pieces:
            self.compared[TopicPartition(piece.topic, piece.partition)].ranges.append(Covered(piece.start, piece.end))

    def add_outcomes(self, counts: Iterable[OutcomeCount]) -> None:
        """Adds the outcomes of records."""
        for each in counts:
            self.counted[each.outcome] += each.records
            compared = self.compared[TopicPartition(each.topic, each.partition)]
            reach = Covered(each.first, each.last + 1)
            if each.outcome == HIDDEN:
                compared.hidden.append(reach)
            elif each.outcome not in NO_FAULT:
                compared.bad.append(reach)

    def add_unmapped(self, found: Sequence[tuple[Span, int]], pieces: Sequence[ComparedPiece]) -> None:
        """Adds target records that are the copy of no source record.

        Each counts as a fault of the whole piece, because it is not known between which copies of the piece it lies.

        Args:
            found: Target offsets of such records, each with its span.
            pieces: The pieces of these spans.
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
        """Counts the planned pieces of each partition that were not reached."""
        for piece in self._not_done(first):
            self.compared[TopicPartition(piece.topic, piece.partition)].first_left += 1
        for piece in self._not_done(second):
            self.compared[TopicPartition(piece.topic, piece.partition)].second_left += 1

    def _not_done(self, pieces: Iterable[ComparedPiece]) -> list[ComparedPiece]:
        """The pieces that were not compared, of partitions with compared pieces."""
        done = {(*tp, *each) for tp, compared in self.compared.items() for each in compared.ranges}
        return [piece for piece in pieces if (piece.topic, piece.partition) in self.compared and piece[:4] not in done]
