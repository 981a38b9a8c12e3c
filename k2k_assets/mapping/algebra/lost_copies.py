"""What a map still tells where the target has lost copies. Pure, no I/O.

```
 source   0 ... 3 | 4 ... 9 |           position 10
 target   0 ... 3 |                     4 to 9 are lost: the target ends at 4, or its next record got offset 4
 map      0 ... 3 |? ..... ?|           where a group continues that has not read 4 is not known
```

What is copied next takes their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from k2k_assets.mapping.algebra import run_tables
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.in_memory_mapping import without
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, PartitionMap, RunTable
from k2k_assets.mapping.algebra.translate import next_records


def first_lost(runs: RunTable, cut: int) -> int | None:
    """Source offset of the first record whose copy is lost; None if none is.

    Args:
        runs: The runs into a target partition.
        cut: Target offset from which on its copies are lost.
    """
    found = next_records(runs.target_starts, runs.counts, np.array([cut]))
    run, record = int(found.run[0]), int(found.record[0])
    return int(runs.source_starts[run]) + record - int(runs.target_starts[run]) if run < len(runs) else None


def without_lost(mapping: PartitionMap, cuts: Mapping[Target, int]) -> PartitionMap:
    """The map up to the first record whose copy is lost; what lies behind is unknown, up to where it was copied.

    Args:
        mapping: The map.
        cuts: Target offset from which on copies are lost, by target partition.
    """
    lost = [first_lost(mapping.runs.get(target, NO_RUNS), cut) for target, cut in cuts.items()]
    start = min((offset for offset in lost if offset is not None), default=None)
    if start is None:
        return mapping
    known = replace(
        mapping,
        covered=without(mapping.covered, Covered(start, mapping.covered_end)),
        runs={target: run_tables.before(table, start) for target, table in mapping.runs.items()},
        dropped={rule: run_tables.before(table, start) for rule, table in mapping.dropped.items()},
    )
    return known.reaching(mapping.covered_end)
