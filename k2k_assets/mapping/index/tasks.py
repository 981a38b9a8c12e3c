"""The work of the index's Spark tasks as functions of Arrow tables: fold records into a segment, merge segments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import pyarrow as pa

from k2k_assets.mapping.index.folding import folded
from k2k_assets.mapping.index.portion_table import to_table
from k2k_assets.mapping.index.portions import (
    Portion,
    by_rule,
    by_source,
    by_target,
    covered_ranges,
    set_by_hand,
    settings_ranges,
    skipped_ranges,
)
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets.mapping.index.run_columns import concatenated
from k2k_assets.mapping.index.segment_files import SegmentFile, SegmentReader


class FoldedPortion(NamedTuple):
    """A portion, and the number of its stretch, as in `folding.Folded`."""

    portion: Portion
    stretch: int = 0


def fold_rows(root: IndexRoot, segment: str, rows: pa.Table) -> list[FoldedPortion]:
    """Folds mapping records into files of a segment: one for each stretch, because a later one may cut an earlier one.

    Args:
        root: Directory of the index.
        segment: Name of the segment.
        rows: Columns `record_rows.ROWS`, sorted by `folding.SORTED_BY`.
    """
    portions = []
    files: dict[int, SegmentFile] = {}
    with ExitStack() as opened:
        for part in folded(rows):
            if part.stretch not in files:
                files[part.stretch] = opened.enter_context(SegmentFile(root, segment))
            file = files[part.stretch]
            pieces = tuple(file.add(part.source, target, runs) for target, runs in part.runs.items())
            dropped = tuple(file.add(part.source, target, ranges) for target, ranges in part.dropped.items())
            portion = Portion(
                source=part.source,
                segment=segment,
                file=file.name if pieces or dropped else "",
                start=part.start,
                end=part.end,
                covered=part.covered,
                oldest=part.oldest,
                beginning=part.beginning,
                newest=part.newest,
                since=part.since,
                until=part.until,
                records=part.records,
                pieces=pieces,
                skipped=part.skipped,
                settings=part.settings,
                set_at=part.set_at,
                dropped=dropped,
            )
            portions.append(FoldedPortion(portion, part.stretch))
    return portions


def by_stretch(portions: Iterable[FoldedPortion]) -> list[pa.Table]:
    """Tables of portions by the number of their stretch: columns `portion_table.PORTIONS`."""
    found: dict[int, list[Portion]] = defaultdict(list)
    for portion, stretch in portions:
        found[stretch].append(portion)
    return [to_table(found[number]) for number in range(max(found, default=0) + 1)]


def merge_portions(root: IndexRoot, segment: str, portions: Iterable[Portion]) -> list[Portion]:
    """Writes the valid runs of portions anew, as one file of a segment.

    Args:
        root: Directory of the index.
        segment: Name of the new segment.
        portions: All portions of some source partitions in the segments to merge.
    """
    reader = SegmentReader(root)
    with SegmentFile(root, segment) as file:
        return [_merged(reader, file, segment, of_source) for of_source in by_source(portions).values()]


def _merged(reader: SegmentReader, file: SegmentFile, segment: str, portions: Sequence[Portion]) -> Portion:
    first, last = portions[0], portions[-1]
    pieces, dropped = (
        tuple(
            file.add(first.source, target, concatenated([reader.read(portion, piece) for portion, piece in of_target]))
            for target, of_target in grouped
        )
        for grouped in (by_target(portions), by_rule(portions))
    )
    return Portion(
        source=first.source,
        segment=segment,
        file=file.name if pieces or dropped else "",
        start=first.start,
        end=last.end,
        covered=covered_ranges(portions),
        oldest=first.oldest,
        beginning=first.beginning,
        newest=last.newest,
        since=min(portion.since for portion in portions),
        until=max(portion.until for portion in portions),
        records=sum(portion.records for portion in portions),
        pieces=pieces,
        skipped=skipped_ranges(portions),
        settings=settings_ranges(portions),
        set_at=set_by_hand(portions),
        dropped=dropped,
    )
