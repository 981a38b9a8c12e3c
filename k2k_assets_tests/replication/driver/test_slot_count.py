"""When another number of slots is a reason for a new generation."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.replication.driver.slot_count import SlotCount
from k2k_assets_tests.support.copies.pipelines import make_pipeline


class Counted:
    """A count over cores that a test sets, and how often they were asked for."""

    def __init__(self, directory: Path, configured: int | None = None) -> None:
        configuration = {"partitionParallelism": configured} if configured else {}
        sync = {"metadataInterval": "50 seconds"}
        pipeline = make_pipeline(directory, "a:1", "b:1", ["t"], configuration=configuration, sync=sync)
        self.cores, self.asked, self.now = 2, 0, 0.0
        self.slots = SlotCount(pipeline, self._ask, lambda: self.now)

    def _ask(self) -> int:
        self.asked += 1
        return self.cores

    def later(self, seconds: float) -> bool:
        self.now += seconds
        return self.slots.has_changed()


def test_cores_are_asked_for_once_an_interval(tmp_path: Path) -> None:
    counted = Counted(tmp_path)
    assert counted.slots.plan(8) == 2
    counted.cores = 3
    assert not counted.later(49)
    assert counted.asked == 1
    assert counted.later(2)
    assert not counted.later(49), "the new generation is being drawn"
    assert counted.slots.plan(8) == 3
    assert not counted.later(51)


@pytest.mark.parametrize(
    ("configured", "partitions", "cores", "changed"),
    [(None, 8, 1, True), (None, 8, 3, True), (None, 2, 3, False), (2, 8, 3, False), (2, 8, 1, True), (5, 8, 4, True)],
)
def test_only_another_number_of_slots_counts(
    tmp_path: Path, configured: int | None, partitions: int, cores: int, changed: bool
) -> None:
    """More cores than partitions, or than are configured, are of no use."""
    counted = Counted(tmp_path, configured)
    assert counted.slots.plan(partitions) == 2
    counted.cores = cores
    assert counted.later(51) is changed
