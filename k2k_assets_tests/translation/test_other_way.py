"""Groups that go back where the pipeline back began late: what it has not copied can be read there only."""

from __future__ import annotations

import numpy as np
import pytest

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.reverse import LogHere
from k2k_assets.mapping.algebra.translate import STATE_LABELS
from k2k_assets.translation.other_way import first_unread_back

HERE, THERE = Target("t", "here", 0), Target("t", "there", 0)


def _back(runs: list[Run], began: int, positions: list[int], repeats: bool = False) -> list[tuple[int, str]]:
    """Answers for positions there, where a pipeline back began late, and has copied ten records since."""
    copied = runs[-1].source_start + runs[-1].count
    covered = (Covered(0, copied + 10),)  # and the ten copies that came back were left out
    forth = PartitionMap(SourcePartition("a", "t", "here", 0), 0, covered, {THERE: RunTable.of(runs)}, 0)
    returned = {HERE: RunTable.of([Run(began, copied, 10)])}
    back = PartitionMap(SourcePartition("b", "t", "there", 0), began, (Covered(began, began + 10),), returned, 0)
    log = LogHere(0, copied + 10, None, repeats)
    found = first_unread_back(forth, THERE, back, HERE, np.array(positions), log)
    return [(int(at), STATE_LABELS[state]) for at, state in zip(found.offsets, found.states, strict=True)]


def test_what_came_from_here_need_not_come_back() -> None:
    """
    ```
     here    0 ... 49   50 ... 99
     there   0 ... 49 | 51 ... 100 |      | is a marker, and at 102 the pipeline back begins
    ```
    """
    copies = [Run(0, 0, 50), Run(50, 51, 50)]
    assert _back(copies, 102, [0, 30, 51, 80, 102, 107]) == [
        (0, "exact"), (30, "exact"), (50, "exact"), (79, "exact"), (100, "exact"), (105, "exact"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "began", "unknown", "known"),
    [
        ([Run(0, 0, 100)], 200, [50, 100, 150, 199], [200, 205]),  # others wrote behind the copies
        ([Run(0, 0, 50), Run(50, 60, 50)], 111, [10, 49, 55], [60, 100, 111]),  # and between them
        ([Run(0, 20, 100)], 121, [5, 19], [20, 80]),  # and before them
    ],
)
def test_what_others_wrote_there_before_the_pipeline_back_began_is_not_here(
    runs: list[Run], began: int, unknown: list[int], known: list[int]
) -> None:
    assert {state for _, state in _back(runs, began, unknown)} == {"unknown"}
    assert {state for _, state in _back(runs, began, known)} == {"exact"}


def test_at_least_once_there_are_no_markers() -> None:
    copies = [Run(0, 0, 50), Run(50, 51, 50)]
    assert _back(copies, 101, [30], repeats=True)[0][1] == "unknown"
    assert _back(copies, 101, [60], repeats=True)[0][1] != "unknown"
