"""How long executors are waited for; without a cluster."""

from __future__ import annotations

import pytest

from k2k_assets.core.errors import StoppedWaiting
from k2k_assets.spark.executors import is_counted, settled_cores


class Coming:
    """Executors of a core each that come at given times, and the clock."""

    def __init__(self, *times: float) -> None:
        self.now, self._times = 0.0, times

    def count(self) -> int:
        return sum(at <= self.now for at in self._times)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("times", "expected", "found", "after"),
    [
        ((4, 5), 2, 2, 5),
        ((4, 5), None, 2, 8),
        ((4, 5, 20), 3, 2, 8),  # the third one is found by a later look
        ((4, 5), 1, 1, 4),
        ((29,), None, 1, 32),
        ((31,), None, 0, 30),
        ((), 2, 0, 30),
    ],
)
def test_executors_are_waited_for(times: tuple[float, ...], expected: int | None, found: int, after: float) -> None:
    """For the first one with patience, for more only while they come."""
    coming = Coming(*times)
    assert settled_cores(coming.count, expected, 30, clock=lambda: coming.now, sleep=coming.sleep) == found
    assert coming.now == pytest.approx(after, abs=0.3)


@pytest.mark.parametrize("times", [(), (1.9,)], ids=["none came", "one came, and more may"])
def test_nobody_waits_who_is_told_to_stop(times: tuple[float, ...]) -> None:
    coming = Coming(*times)
    with pytest.raises(StoppedWaiting):
        settled_cores(coming.count, 4, 30, lambda: coming.now >= 2, lambda: coming.now, coming.sleep)
    assert coming.now == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(
    ("conf", "counted"),
    [
        ({"spark.master": "local"}, False),
        ({"spark.master": "local[*]"}, False),
        ({"spark.master": "local-cluster[2,1,1024]"}, True),
        ({"spark.master": "spark://host:7077"}, True),
        ({"spark.master": "k8s://https://host", "spark.dynamicAllocation.enabled": "true"}, False),
        ({"spark.master": "yarn", "spark.dynamicAllocation.enabled": "false"}, True),
    ],
)
def test_what_is_counted(conf: dict[str, str], counted: bool) -> None:
    assert is_counted(conf.get) is counted
