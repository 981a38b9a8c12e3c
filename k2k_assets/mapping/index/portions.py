"""Portions: the valid part of each segment for each source partition, and their algebra. Pure, no I/O.

```
 segment 1   [0 ──────────────── 900)                 portion: all of it is valid
 segment 2               [900 ────────── 1500)        cut at 1200: the rows beyond are ignored
 segment 3                         [1200 ───── 1800)  a re-copy started at 1200
```

The portions of one source partition never overlap: a newer one that starts at s cuts the older ones at s. So the files
of a segment never change, only the table of portions does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra import run_tables
from k2k_assets.mapping.algebra.fold import Beginning, Covered, LateRecord, Order, Target, goes_on
from k2k_assets.mapping.algebra.partition_map import RunTable, SourcePartition


class SettingsRange(NamedTuple):
    """A source range (start inclusive, end exclusive) that was copied under the same settings, by their fingerprint."""

    start: int
    end: int
    settings: str


@dataclass(frozen=True, slots=True)
class PortionPiece:
    """The runs of a portion into one target partition: neighbouring rows of the portion's file.

    Attributes:
        target: The target partition.
        first_row: First row of these runs in the file.
        rows: Number of valid runs, at least one.
        mapped: Number of source records that the valid runs map.
        start: Source offset of the first run.
        last: The valid part of the last valid run; in the file it may be longer.
    """

    target: Target
    first_row: int
    rows: int
    mapped: int
    start: int
    last: Run


@dataclass(frozen=True, slots=True)
class Portion:
    """The valid part of one segment for one source partition.

    Attributes:
        source: The source partition.
        segment: Name of the segment.
        file: Name of the file in the segment; empty if no record of the range was copied, or left out on purpose.
        start: First source offset of the portion: the lowest at which a copy of it started.
        end: Source offset after the portion, which its newest record has reached; the segment's runs at or after it are
            not valid.
        covered: Covered source ranges: ordered, disjoint, not adjacent.
        oldest: Order of the oldest mapping record folded in.
        beginning: How the oldest mapping record begins; as far as older releases did not note it, as `start` and
            `oldest`.
        newest: Order of the newest mapping record folded in.
        since: Time of the oldest record, milliseconds since the epoch.
        until: Time of the newest record, milliseconds since the epoch.
        records: Number of mapping records folded in.
        pieces: The runs, by target partition.
        skipped: Covered ranges that were skipped by hand (`k2k-tool set`): their records are on the source, and never
            on the target. Older releases did not note them.
        settings: Covered ranges with the settings of their copy (`control/copy_settings.py`), as far as noted.
        set_at: Source offsets to which a position was set by hand. Foreign records may lie on the target between the
            copies below such an offset and those from it on.
        dropped: The ranges that were left out on purpose, under `fold.nowhere` of each rule: a range is a run whose
            target offsets are its source offsets. Older releases did not note them.
    """

    source: SourcePartition
    segment: str
    file: str
    start: int
    end: int
    covered: tuple[Covered, ...]
    oldest: Order
    beginning: Beginning
    newest: Order
    since: int
    until: int
    records: int
    pieces: tuple[PortionPiece, ...]
    skipped: tuple[Covered, ...] = ()
    settings: tuple[SettingsRange, ...] = ()
    set_at: tuple[int, ...] = ()
    dropped: tuple[PortionPiece, ...] = ()

    @property
    def mapped(self) -> int:
        """Number of source records that its valid runs map."""
        return sum(piece.mapped for piece in self.pieces)

    @property
    def runs(self) -> int:
        """Number of its valid runs."""
        return sum(piece.rows for piece in self.pieces)


Load = Callable[[Portion, PortionPiece], RunTable]
"""Reads the valid runs of a piece."""


def by_source(portions: Iterable[Portion]) -> dict[SourcePartition, list[Portion]]:
    """Groups portions by source partition, each group in order."""
    grouped: dict[SourcePartition, list[Portion]] = defaultdict(list)
    for portion in portions:
        grouped[portion.source].append(portion)
    return {source: sorted(grouped[source], key=lambda p: (p.newest, p.start)) for source in sorted(grouped)}


def by_target(portions: Sequence[Portion]) -> list[tuple[Target, list[tuple[Portion, PortionPiece]]]]:
    """Groups the pieces of a source partition's portions by target partition, in the order of the portions."""
    return _grouped((portion, piece) for portion in portions for piece in portion.pieces)


def by_rule(portions: Sequence[Portion]) -> list[tuple[Target, list[tuple[Portion, PortionPiece]]]]:
    """Groups what was left out of a source partition by rule (`fold.nowhere`), in the order of the portions."""
    return _grouped((portion, piece) for portion in portions for piece in portion.dropped)


def _grouped(
    pieces: Iterable[tuple[Portion, PortionPiece]],
) -> list[tuple[Target, list[tuple[Portion, PortionPiece]]]]:
    grouped: dict[Target, list[tuple[Portion, PortionPiece]]] = {}
    for portion, piece in pieces:
        grouped.setdefault(piece.target, []).append((portion, piece))
    return sorted(grouped.items())


def extended(
    before: Iterable[Portion], added: Iterable[Portion], load: Load, doubtful: Collection[SourcePartition] = ()
) -> list[Portion]:
    """Adds the portions of a new segment, which cut the older portions that they overlap.

    Args:
        before: Older portions, in any order.
        added: Portions of the new segment, at most one for each source partition.
        load: Reads a piece that a cut goes through.
        doubtful: Source partitions whose records may have been lost in between. Their new portion may belong to a copy
            that began anywhere. Unless it goes on (`fold.goes_on`), the older ones do not cover anything any more:
            their runs tell where copies are, and answer nothing.

    Raises:
        LateRecord: The new segment has a record that is older than one that was folded before.
    """
    known = by_source(before)
    for portion in added:
        earlier = known.get(portion.source, [])
        if earlier and portion.oldest < earlier[-1].newest:
            raise LateRecord(f"{portion.source}: {portion.oldest} after {earlier[-1].newest}")
        at = portion.start
        if earlier and not goes_on(earlier[-1].newest, earlier[-1].end, portion.beginning, portion.source in doubtful):
            at -= 1  # so that no run seems to be the last one before the new ones
            earlier = [replace(p, covered=()) for p in earlier]
        left = [kept for p in earlier if (kept := cut(p, at, load))]
        known[portion.source] = [*left, _with_set_at(portion, earlier, left)]
    return [portion for source in sorted(known) for portion in known[source]]


def _with_set_at(portion: Portion, before: Sequence[Portion], left: Sequence[Portion]) -> Portion:
    """Keeps the note that the portion's start was set by hand, if the portion that had it was cut away.

    The former copies still lie on the target.
    """
    if portion.start not in set_by_hand(before) or portion.start in (*set_by_hand(left), *portion.set_at):
        return portion
    return replace(portion, set_at=(portion.start, *portion.set_at))


def cut(portion: Portion, at: int, load: Load) -> Portion | None:
    """Cuts a portion at a source offset; None if nothing is left."""
    if portion.end <= at:
        return portion
    if portion.start >= at:
        return None
    covered, skipped = _cut_ranges(portion.covered, at), _cut_ranges(portion.skipped, at)
    pieces = tuple(left for piece in portion.pieces if (left := _cut_piece(portion, piece, at, load)))
    dropped = tuple(left for piece in portion.dropped if (left := _cut_piece(portion, piece, at, load)))
    file = portion.file if pieces or dropped else ""
    settings = tuple(under._replace(end=min(under.end, at)) for under in portion.settings if under.start < at)
    set_at = tuple(offset for offset in portion.set_at if offset < at)
    kept = replace(portion, end=at, covered=covered, pieces=pieces, file=file)
    return replace(kept, skipped=skipped, settings=settings, set_at=set_at, dropped=dropped)


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
    """The last run of a table, which must not be empty."""
    return Run(*(int(column[-1]) for column in (runs.source_starts, runs.target_starts, runs.counts)))


def covered_ranges(portions: Sequence[Portion]) -> tuple[Covered, ...]:
    """The covered ranges of one source partition, joined where they are adjacent.

    Args:
        portions: Its portions, in order.
    """
    return joined(covered for portion in portions for covered in portion.covered)


def skipped_ranges(portions: Sequence[Portion]) -> tuple[Covered, ...]:
    """The ranges of one source partition that were skipped by hand, from its portions in order."""
    return joined(skipped for portion in portions for skipped in portion.skipped)


def settings_ranges(portions: Sequence[Portion]) -> tuple[SettingsRange, ...]:
    """The settings of the copies of one source partition, from its portions in order."""
    return joined_settings(under for portion in portions for under in portion.settings)


def set_by_hand(portions: Sequence[Portion]) -> tuple[int, ...]:
    """The source offsets to which the position of one source partition was set by hand, rising."""
    return tuple(sorted({offset for portion in portions for offset in portion.set_at}))


def joined_settings(ranges: Iterable[SettingsRange]) -> tuple[SettingsRange, ...]:
    """Joins adjacent ranges with the same settings, and drops ranges without settings; ordered, disjoint ranges."""
    result: list[SettingsRange] = []
    for under in ranges:
        if result and result[-1].end == under.start and result[-1].settings == under.settings:
            result[-1] = result[-1]._replace(end=under.end)
        elif under.settings:
            result.append(under)
    return tuple(result)


def joined(ranges: Iterable[Covered]) -> tuple[Covered, ...]:
    """Joins adjacent ranges of ordered, disjoint ones."""
    result: list[Covered] = []
    for start, end in ranges:
        if result and result[-1].end == start:
            result[-1] = Covered(result[-1].start, end)
        else:
            result.append(Covered(start, end))
    return tuple(result)
