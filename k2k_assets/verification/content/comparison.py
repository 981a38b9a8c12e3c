"""The plan of a content check: the pieces of partitions to compare, and the watermarks on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.sampling import Look, Ranges, Stretch
from k2k_assets.verification.content.sides import Side
from k2k_assets.verification.content.verified import Verified, asked_for

# Size of one Spark job, which takes a few seconds.
_RECORDS_PER_ROUND, _PIECES_PER_ROUND = 200_000, 1000


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One source partition in a comparison.

    Attributes:
        source: The source partition.
        known: The notes of earlier evaluations, as far as they are still valid.
        readable: Ranges that are mapped and still on the source; at least one.
        look: The ranges to compare.
        is_hidden: Whether some of its copies lie in target partitions without a leader.
    """

    source: SourcePartition
    known: Verified
    readable: Ranges
    look: Look
    is_hidden: bool

    def asked_for(self) -> set[int]:
        """The source offsets for which the last mapped record below has to be found."""
        return asked_for(self.known, self.look, self.readable)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The plan of a content check.

    Attributes:
        source: The source side.
        target: The target side.
        source_cluster: Id of the source cluster; runs of others are left out.
        today: All source partitions with today's topic ids; the check may plan only some of them.
        readable: Ranges that are mapped and still on the source, for partitions whose ends could be read.
        planned: The planned partitions.
        first: Pieces to compare first, in this order: those found wrong before, and fresh ones.
        second: Pieces to compare after these.
        unknown: Number of sampled offsets that were copied under settings that are not known any more, or with
            functions of other code.
        incomparable: Ranges that were found wrong before, and cannot be compared any more for that reason.
        former_topics: Number of topics in the index that do not exist on the source any more under their id.
        offline_partitions: Partitions on either side without a leader, with the reason; they are left out.
        skipped: Source ranges that were skipped by hand, including those that are not compared.
    """

    source: Side
    target: Side
    source_cluster: str
    today: Mapping[TopicPartition, SourcePartition] = field(default_factory=dict)
    readable: Mapping[TopicPartition, Ranges] = field(default_factory=dict)
    planned: Mapping[TopicPartition, PlannedPartition] = field(default_factory=dict)
    first: list[ComparedPiece] = field(default_factory=list)
    second: list[ComparedPiece] = field(default_factory=list)
    unknown: int = 0
    incomparable: Mapping[TopicPartition, Ranges] = field(default_factory=dict)
    former_topics: int = 0
    offline_partitions: Mapping[TopicPartition, str] = field(default_factory=dict)
    skipped: Sequence[Stretch] = ()

    def source_ids(self) -> list[tuple[str, str]]:
        """Topic and topic id of the source topics that take part."""
        return [(topic.name, topic.topic_id) for topic in self.source.topics.values()]


def rounds(pieces: Iterable[ComparedPiece]) -> Iterator[list[ComparedPiece]]:
    """Splits pieces into rounds, in order; each round is one comparison."""
    some: list[ComparedPiece] = []
    records = 0
    for piece in pieces:
        some.append(piece)
        records += piece.end - piece.start
        if records >= _RECORDS_PER_ROUND or len(some) >= _PIECES_PER_ROUND:
            yield some
            some, records = [], 0
    if some:
        yield some
