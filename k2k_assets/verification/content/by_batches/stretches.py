"""Which stretches can be proven by batches, and what is left of them for the comparison by records. Pure.

```
  piece       ├──────────────────────────────────────────────────────┤
  stretches   ├───────────────────┤
                                ├───────────────────┤                  they overlap, so that they share records
                                                  ├──────────────────┤
  proven      ├───────────────────┤
                                ├─────┤ doubt ├─────────────────────┤
  left                                ├───────┤                        with the proven records on both sides
```

What a proof says of the target is that nothing else lies between the copies of a part. So two parts are one only if
they share a record. Else both of the records beside the gap are compared again, with what lies between their copies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.verification.content.by_batches.proven_parts import ProvenPart
from k2k_assets.verification.content.pieces import ComparedPiece
from k2k_assets.verification.content.sampling import Ranges, union

_OVERLAP = 1000
_NO_ENDS: Mapping[TopicPartition, Collection[int]] = {}
_NOTHING = "no time was left for it, or no record is mapped there"
_TASKS, _LEAST, _MOST = 16, 50_000, 2_000_000


def can_be_proven(piece: ComparedPiece) -> bool:
    """Whether equal bytes prove that a record was copied rightly: nothing was to be changed, added, or left out.

    Whether headers and timestamps were to be copied does not matter: copies that have them as well are the same.
    """
    is_untouched = not (piece.schemas or piece.added or piece.drops or piece.transform)
    return is_untouched and piece.isolation == "read_committed"


def cut(pieces: Sequence[ComparedPiece], ends: Mapping[TopicPartition, int]) -> list[ComparedPiece]:
    """Cuts pieces into stretches that overlap, so that several tasks have work.

    Args:
        pieces: The pieces.
        ends: The last stable offset of each source partition.
    """
    readable = [
        piece._replace(end=min(piece.end, ends.get(TopicPartition(piece.topic, piece.partition), 0)))
        for piece in pieces
        if can_be_proven(piece)
    ]
    size = sum(max(0, piece.end - piece.start) for piece in readable)
    length = min(_MOST, max(_LEAST, size // _TASKS))
    return [
        piece._replace(start=max(piece.start, at - _OVERLAP), end=min(piece.end, at + length))
        for piece in readable
        for at in range(piece.start, piece.end, length)
    ]


@dataclass(frozen=True, slots=True)
class Proven:
    """What is proven.

    Attributes:
        pieces: What needs no further comparison: disjoint, and in order within a partition.
        doubts: Source ranges in which something is in doubt, by partition: ordered and disjoint.
        undecoded: Share of the proven records that were not looked at.
        bytes_: Bytes of batches that were read on both sides.
        seconds: How long tasks took to do it, in all.
        why: Why not more is proven, as far as it is known; else empty.
    """

    pieces: Sequence[ComparedPiece] = ()
    doubts: Mapping[TopicPartition, Ranges] = field(default_factory=dict)
    undecoded: float = 0.0
    bytes_: int = 0
    seconds: float = 0.0
    why: str = ""

    def ranges(self) -> Mapping[TopicPartition, Ranges]:
        """The ranges of the pieces by partition."""
        found: dict[TopicPartition, list[Covered]] = defaultdict(list)
        for piece in self.pieces:
            found[TopicPartition(piece.topic, piece.partition)].append(Covered(piece.start, piece.end))
        return {tp: union(of_partition) for tp, of_partition in found.items()}


def proven_by(
    pieces: Iterable[ComparedPiece],
    parts: Iterable[ProvenPart],
    open_ends: Mapping[TopicPartition, Collection[int]] = _NO_ENDS,
) -> Proven:
    """What some parts prove of the pieces to which their stretches belong.

    Args:
        pieces: The pieces.
        parts: The parts.
        open_ends: Where pieces begin or end though there is more to compare on the other side: of what is proven, the
            record beside such an end is left to be compared with its neighbour there.
    """
    by_partition: dict[TopicPartition, list[ProvenPart]] = defaultdict(list)
    for part in sorted(parts):
        by_partition[TopicPartition(part.topic, part.partition)].append(part)
    found = []
    for piece in pieces:
        of_partition = by_partition[TopicPartition(piece.topic, piece.partition)]
        ends = open_ends.get(TopicPartition(piece.topic, piece.partition), ())
        within = [part for part in of_partition if piece.start <= part.start < piece.end and part.records]
        found += [piece._replace(start=start, end=end) for start, end in _ranges(piece, within, ends)]
    everything = [part for of_partition in by_partition.values() for part in of_partition]
    records = sum(part.records for part in everything)
    nothing = "" if everything else _NOTHING
    doubts = {tp: _doubtful(of) for tp, of in by_partition.items()}
    return Proven(
        found,
        {tp: union(of) for tp, of in doubts.items() if of},
        sum(part.undecoded for part in everything) / records if records else 0.0,
        sum(part.bytes_ for part in everything),
        sum(part.milliseconds for part in everything) / 1000,
        next((f"{part.topic}-{part.partition}@{part.end}: {part.doubt}" for part in everything if part.doubt), nothing),
    )


def _doubtful(parts: Sequence[ProvenPart]) -> list[tuple[int, int]]:
    """The ranges in doubt, each with the records beside it, if these are proven."""
    first = {part.start: part.first for part in parts if part.records}
    return [
        (part.last if part.records else part.start, max(part.doubt_end, first.get(part.doubt_end, -1) + 1))
        for part in parts
        if part.doubt
    ]


def _ranges(piece: ComparedPiece, parts: Sequence[ProvenPart], open_ends: Collection[int]) -> list[Covered]:
    """What needs no further comparison; `parts` of the piece, in order, with at least one record each."""
    chains: list[ProvenPart] = []
    for part in parts:
        if chains and part.start <= chains[-1].end and part.first <= chains[-1].last:
            before = chains[-1]
            end, last = max(before.end, part.end), max(before.last, part.last)
            chains[-1] = before._replace(end=end, last=last)
        else:
            chains.append(part)
    found = []
    closed = {piece.start, piece.end} - set(open_ends)
    for chain in chains:
        start = chain.start if chain.start == piece.start in closed else chain.first + 1
        end = chain.end if chain.end == piece.end in closed else chain.last
        if start < end:
            found.append(Covered(start, end))
    return found
