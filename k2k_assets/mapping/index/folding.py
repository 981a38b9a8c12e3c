"""Folds the rows of mapping records into runs and covered ranges: the same as `mapping/algebra/fold.py`, in columns.

A record that starts at s cancels all earlier ones from s on. So the part of a record below the lowest start of all
later records is valid, and no record has to be looked at twice:

```
 records in order     [0 ── 5)  [5 ─ 9)  [7 ─── 12)  [12 ── 15)
 lowest start after        5        7         12         -
 valid                [0 ── 5)  [5 7)    [7 ─── 12)  [12 ── 15)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress, pairwise

import numpy as np
import pyarrow as pa

from k2k_assets.mapping.algebra.fold import Beginning, Covered, Order, Target, is_nowhere
from k2k_assets.mapping.algebra.partition_map import RunTable, SourcePartition
from k2k_assets.mapping.index.grouping import Column, codes_of, groups, numbers
from k2k_assets.mapping.index.portions import SettingsRange, joined, joined_settings
from k2k_assets.mapping.index.record_rows import RUN_BYTES
from k2k_assets.mapping.index.run_columns import joined_runs

SOURCE = ("cluster", "topic", "source_topic_id", "partition")
ORDER = ("generation", "sequence", "offset")
SORTED_BY = (*SOURCE, "stretch", *ORDER)
_TARGET = ("target_topic", "target_topic_id", "target_partition")
_NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Folded:
    """The fold of one stretch of a source partition's records; fields as in `Portion`.

    Attributes:
        stretch: Its number: 0 if nothing was passed over before it; what lies before all others is unknown.
        dropped: The ranges that were left out, under `fold.nowhere` of each rule.
    """

    source: SourcePartition
    stretch: int
    start: int
    end: int
    covered: tuple[Covered, ...]
    skipped: tuple[Covered, ...]
    settings: tuple[SettingsRange, ...]
    set_at: tuple[int, ...]
    oldest: Order
    beginning: Beginning
    newest: Order
    since: int
    until: int
    records: int
    runs: dict[Target, RunTable]
    dropped: dict[Target, RunTable]


def folded(rows: pa.Table) -> Iterator[Folded]:
    """Folds each stretch of each source partition by itself.

    A record that does not go on (`fold.goes_on`) begins one; no other does, whatever was passed over in between.

    Args:
        rows: Columns `record_rows.ROWS`, sorted by `SORTED_BY`.
    """
    for start, end in pairwise(groups(rows, SOURCE)):
        of_source = rows.slice(start, end - start)
        first = min(1, of_source["stretch"][0].as_py())
        for number, (begin, after) in enumerate(pairwise(_stretches(of_source)), first):
            yield _fold(of_source.slice(begin, after - begin), number)


def _stretches(rows: pa.Table) -> list[int]:
    """The row that each stretch begins at, and the number of rows."""
    start, end = numbers(rows["covered_from"]), numbers(rows["covered_to"])
    is_missing = (np.diff(numbers(rows["stretch"])) > 0) | (start[1:] > end[:-1])
    begins = np.flatnonzero(is_missing) + 1
    if not len(begins):
        return [0, len(rows)]
    generation, forward_since = numbers(rows["generation"]), numbers(rows["forward_since"])
    newest, position = generation[begins - 1], end[begins - 1]
    goes_on = (forward_since[begins] <= newest) & (newest <= generation[begins]) & (start[begins] >= position)
    return [0, *begins[~goes_on].tolist(), len(rows)]


def _fold(rows: pa.Table, stretch: int) -> Folded:
    generation, sequence = (numbers(rows[name]) for name in ORDER[:2])
    firsts = np.asarray(groups(rows, ORDER)[:-1])
    starts, ends = numbers(rows["covered_from"])[firsts], numbers(rows["covered_to"])[firsts]
    limits = np.full(len(firsts), _NO_LIMIT)
    limits[:-1] = np.minimum.accumulate(starts[::-1])[::-1][1:]
    record = np.zeros(len(rows), np.int64)
    record[firsts[1:]] = 1
    runs = _runs(rows, limits[np.cumsum(record)])
    times = numbers(rows["time"])
    valid_ends = np.minimum(ends, limits)
    kept = valid_ends > starts
    overrides = rows["override"].combine_chunks().to_numpy(zero_copy_only=False)[firsts]
    by_hand = kept & overrides
    settings = rows["settings"].combine_chunks().take(pa.array(firsts)).to_pylist()
    highest = max((table.source_end for table in runs.values()), default=0)
    return Folded(
        source=SourcePartition(*(rows[name][0].as_py() for name in SOURCE)),
        stretch=stretch,
        start=int(starts.min()),
        end=max(int(ends[-1]), highest),
        covered=joined(map(Covered, starts[kept].tolist(), valid_ends[kept].tolist())),
        skipped=joined(map(Covered, starts[by_hand].tolist(), valid_ends[by_hand].tolist())),
        settings=joined_settings(
            map(SettingsRange, starts[kept].tolist(), valid_ends[kept].tolist(), compress(settings, kept))
        ),
        set_at=tuple(np.unique(starts[overrides & (starts <= limits)]).tolist()),
        oldest=Order(int(generation[0]), int(sequence[0])),
        beginning=Beginning(int(generation[0]), rows["forward_since"][0].as_py(), int(starts[0])),
        newest=Order(int(generation[-1]), int(sequence[-1])),
        since=int(times.min()),
        until=int(times.max()),
        records=len(firsts),
        runs={target: table for target, table in runs.items() if not is_nowhere(target)},
        dropped={target: table for target, table in runs.items() if is_nowhere(target)},
    )


def _runs(rows: pa.Table, limit_of_row: Column) -> dict[Target, RunTable]:
    """The merged runs by target partition, cut at the limit of the record that they come from."""
    packed = rows["runs"]
    sizes = np.concatenate([np.diff(_offsets(chunk)) for chunk in packed.chunks]) // RUN_BYTES
    triples = np.concatenate([_triples(chunk) for chunk in packed.chunks])
    limits = np.repeat(limit_of_row, sizes)
    of_row = np.stack([codes_of(rows[name]) for name in _TARGET])
    _, example, code = np.unique(of_row, axis=1, return_index=True, return_inverse=True)
    codes = np.repeat(code.reshape(-1), sizes)
    kept = triples[:, 0] < limits
    order = np.flatnonzero(kept)
    order = order[np.lexsort((triples[order, 0], codes[order]))]
    starts, target_starts, counts = (np.ascontiguousarray(triples[order, i]) for i in range(3))
    counts = np.minimum(counts, limits[order] - starts)
    bounds = np.searchsorted(codes[order], np.arange(len(example) + 1)).tolist()
    return {
        Target(*(rows[name][row].as_py() for name in _TARGET)): joined_runs(
            RunTable(starts[a:b], target_starts[a:b], counts[a:b])
        )
        for row, a, b in zip(example.tolist(), bounds[:-1], bounds[1:], strict=True)
        if b > a
    }


def _offsets(packed: pa.BinaryArray) -> Column:
    if not len(packed):
        return np.zeros(1, np.int64)
    every = np.frombuffer(packed.buffers()[1], np.int32)
    return every[packed.offset : packed.offset + len(packed) + 1].astype(np.int64)


def _triples(packed: pa.BinaryArray) -> Column:
    offsets = _offsets(packed)
    data = packed.buffers()[2]
    used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data else np.zeros(0, np.uint8)
    return used.view("<i8").reshape(-1, 3)
