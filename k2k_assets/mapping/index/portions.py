"""What each segment holds of each source partition, and the algebra of it: pure, no I/O.

```
 segment 1   [0 ──────────────── 900)                 portion: all of it is valid
 segment 2               [900 ────────── 1500)        cut at 1200: the rows beyond are passed over
 segment 3                         [1200 ───── 1800)  a re-copy started at 1200
```

The portions of one source partition never overlap: a newer one that starts at s cuts the older ones at s. So the files
of a segment stay as they were written, and only the table of portions changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra import run_tables
from k2k_assets.mapping.algebra.fold import Covered, LateRecord, Order, Target
from k2k_assets.mapping.algebra.partition_map import RunTable, SourcePartition


class SettingsRange(NamedTuple):
    """A source range that was copied under some settings: start inclusive, end exclusive, their fingerprint."""

    start: int
    end: int
    settings: str


@dataclass(frozen=True, slots=True)
class PortionPiece:
    """The runs of a portion into one target partition: neighbouring rows of the portion's file.

    Attributes:
        target: Into which target partition.
        first_row: Where they begin in the file.
        rows: How many of them are valid, at least one.
        mapped: Source records that they map.
        start: Source offset at which the first begins.
        last: The last one, as far as it is valid; the file may hold a longer one.
    """

    target: Target
    first_row: int
    rows: int
    mapped: int
    start: int
    last: Run


@dataclass(frozen=True, slots=True)
class Portion:
    """What one segment holds of one source partition.

    Attributes:
        source: The source partition.
        segment: Name of the segment.
        file: Name of the file in it; empty when nothing of the range was mapped.
        start: First source offset that it decides on.
        end: Nothing at or after it is valid.
        covered: Source ranges that are answered for: ordered, disjoint, not adjacent.
        oldest: Order of the oldest record folded in.
        newest: Order of the newest.
        since: Time of the oldest record, milliseconds since the epoch.
        until: Time of the newest.
        records: Mapping records folded in.
        pieces: By target partition.
        skipped: Of what is covered, what was skipped by hand (`k2k-tool set`): it is on the source, and never on the
            target. Releases that did not note it left it out.
        settings: Of what is covered, what was copied under which settings (`mapping.copy_settings`), as noted.
        set_at: Source offsets at which copying was set to go on by hand: what lies on the target between the copies
            below and those from there on may be anybody's.
    """

    source: SourcePartition
    segment: str
    file: str
    start: int
    end: int
    covered: tuple[Covered, ...]
    oldest: Order
    newest: Order
    since: int
    until: int
    records: int
    pieces: tuple[PortionPiece, ...]
    skipped: tuple[Covered, ...] = ()
    settings: tuple[SettingsRange, ...] = ()
    set_at: tuple[int, ...] = ()

    @property
    def mapped(self) -> int:
        """Source records that its valid runs map."""
        return sum(piece.mapped for piece in self.pieces)

    @property
    def runs(self) -> int:
        """Its valid runs."""
        return sum(piece.rows for piece in self.pieces)


Load = Callable[[Portion, PortionPiece], RunTable]
"""Reads the valid runs of a piece."""


def by_source(portions: Iterable[Portion]) -> dict[SourcePartition, list[Portion]]:
    """Portions of each source partition, in order."""
    grouped: dict[SourcePartition, list[Portion]] = defaultdict(list)
    for portion in portions:
        grouped[portion.source].append(portion)
    return {source: sorted(grouped[source], key=lambda p: (p.newest, p.start)) for source in sorted(grouped)}


def by_target(portions: Sequence[Portion]) -> list[tuple[Target, list[tuple[Portion, PortionPiece]]]]:
    """The pieces of a source partition's portions by target partition, in the order of the portions."""
    grouped: dict[Target, list[tuple[Portion, PortionPiece]]] = {}
    for portion in portions:
        for piece in portion.pieces:
            grouped.setdefault(piece.target, []).append((portion, piece))
    return sorted(grouped.items())


def extended(
    before: Iterable[Portion], added: Iterable[Portion], load: Load, doubtful: Collection[SourcePartition] = ()
) -> list[Portion]:
    """The portions after a new segment, which cuts what it was copied over.

    Args:
        before: In any order.
        added: Those of the new segment, at most one of each source partition.
        load: Asked for a piece that a cut goes through.
        doubtful: Records of these may have been lost in between: what is added may be of a copy that began anywhere,
            and joins on to what was known only if it goes on where the same generation stood.

    Raises:
        LateRecord: The new segment holds a record that is older than one that was folded in before.
    """
    known = by_source(before)
    for portion in added:
        earlier = known.get(portion.source, [])
        if earlier and portion.oldest < earlier[-1].newest:
            raise LateRecord(f"{portion.source}: {portion.oldest} after {earlier[-1].newest}")
        at = portion.start
        if earlier and portion.source in doubtful and not _goes_on(earlier[-1], portion):
            at -= 1
        left = [kept for p in earlier if (kept := cut(p, at, load))]
        known[portion.source] = [*left, _with_set_at(portion, earlier, left)]
    return [portion for source in sorted(known) for portion in known[source]]


def _with_set_at(portion: Portion, before: Sequence[Portion], left: Sequence[Portion]) -> Portion:
    """Notes that its start was set by hand, where what noted it was cut away: the former copies lie there still."""
    if portion.start not in set_by_hand(before) or portion.start in (*set_by_hand(left), *portion.set_at):
        return portion
    return replace(portion, set_at=(portion.start, *portion.set_at))


def _goes_on(before: Portion, portion: Portion) -> bool:
    return portion.oldest.generation == before.newest.generation and portion.start >= before.end


def cut(portion: Portion, at: int, load: Load) -> Portion | None:
    """A portion without what it says of source offsets from `at` on; None if nothing is left."""
    if portion.end <= at:
        return portion
    if portion.start >= at:
        return None
    covered, skipped = _cut_ranges(portion.covered, at), _cut_ranges(portion.skipped, at)
    pieces = tuple(left for piece in portion.pieces if (left := _cut_piece(portion, piece, at, load)))
    file = portion.file if pieces else ""
    settings = tuple(under._replace(end=min(under.end, at)) for under in portion.settings if under.start < at)
    set_at = tuple(offset for offset in portion.set_at if offset < at)
    kept = replace(portion, end=at, covered=covered, pieces=pieces, file=file)
    return replace(kept, skipped=skipped, settings=settings, set_at=set_at)


def _cut_ranges(ranges: Iterable[Covered], at: int) -> tuple[Covered, ...]:
    return tuple(Covered(start, min(end, at)) for start, end in ranges if start < at)


def _cut_piece(portion: Portion, piece: PortionPiece, at: int, load: Load) -> PortionPiece | None:
    if piece.last.source_end <= at:
        return piece
    if piece.start >= at:
        return None
    kept = run_tables.before(load(portion, piece), at)
    return replace(piece, rows=len(kept), mapped=int(kept.counts.sum()), last=last_run(kept))


def last_run(runs: RunTable) -> Run:
    """The last of the runs, at least one."""
    return Run(*(int(column[-1]) for column in (runs.source_starts, runs.target_starts, runs.counts)))


def covered_ranges(portions: Sequence[Portion]) -> tuple[Covered, ...]:
    """The covered ranges of one source partition, joined where they are adjacent.

    Args:
        portions: In order.
    """
    return joined(covered for portion in portions for covered in portion.covered)


def skipped_ranges(portions: Sequence[Portion]) -> tuple[Covered, ...]:
    """What was skipped by hand of one source partition; the portions in order."""
    return joined(skipped for portion in portions for skipped in portion.skipped)


def settings_ranges(portions: Sequence[Portion]) -> tuple[SettingsRange, ...]:
    """What was copied under which settings of one source partition; the portions in order."""
    return joined_settings(under for portion in portions for under in portion.settings)


def set_by_hand(portions: Sequence[Portion]) -> tuple[int, ...]:
    """Where copying of one source partition was set to go on by hand, rising."""
    return tuple(sorted({offset for portion in portions for offset in portion.set_at}))


def joined_settings(ranges: Iterable[SettingsRange]) -> tuple[SettingsRange, ...]:
    """Ordered, disjoint ranges; adjacent ones of the same settings become one, those of no settings are left out."""
    result: list[SettingsRange] = []
    for under in ranges:
        if result and result[-1].end == under.start and result[-1].settings == under.settings:
            result[-1] = result[-1]._replace(end=under.end)
        elif under.settings:
            result.append(under)
    return tuple(result)


def joined(ranges: Iterable[Covered]) -> tuple[Covered, ...]:
    """Ordered, disjoint ranges; adjacent ones become one."""
    result: list[Covered] = []
    for start, end in ranges:
        if result and result[-1].end == start:
            result[-1] = Covered(result[-1].start, end)
        else:
            result.append(Covered(start, end))
    return tuple(result)
