"""Slots with a fault in the process where they really run: in Spark's workers, or in any other process.

`python -m k2k_assets_tests.support.copies.unlucky MISHAP start -f FILE` is `k2k start -f FILE` with a mishap, as JSON.
What Spark ships to its workers is the engine's own task; only the call that runs a slot is another one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from k2k_assets.cli.main import run
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.replication.slot.task import SlotResult, copy_slot
from k2k_assets.spark import slot_task as task
from k2k_assets_tests.support.copies.copying import DyingSink
from k2k_assets_tests.support.memory.clock import Clock, going_by

_THIS = "k2k_assets_tests.support.copies.unlucky"


@dataclass(frozen=True)
class Mishap:
    """What happens to an instance.

    Attributes:
        step: The worker that comes to this step first freezes there (see `DyingSink`); empty: none does.
        occurrence: At which call of that step, from 1.
        frozen: File in which the frozen worker leaves its process id.
        clock: Seconds that its clock is fast; less than 0: slow.
        twice: Whether each slot is copied by two attempts at once, as by a scheduler that takes a slow one for dead.
    """

    step: str = ""
    occurrence: int = 1
    frozen: str = ""
    clock: float = 0.0
    twice: bool = False

    def k2k(self) -> list[str]:
        """How to run `k2k` with it; the arguments of `k2k` follow."""
        return [sys.executable, "-m", _THIS, self.to_json()]

    def to_json(self) -> str:
        """As text; `Mishap(**json.loads(text))` reads it."""
        return json.dumps(asdict(self))

    def clocked(self) -> AbstractContextManager[None]:
        """Lets this process go by the clock of the instance; one that is right leaves the clients as they are."""
        return going_by(Clock(self.clock)) if self.clock else nullcontext()


NONE = Mishap()


def copy_unluckily(mishap: Mishap, plan: SlotPlan) -> SlotResult:
    """As `copy_slot`, with a mishap."""
    with ExitStack() as stack:
        stack.enter_context(mishap.clocked())
        if mishap.step:
            stack.enter_context(_freezing(mishap))
        return _twice(plan) if mishap.twice else copy_slot(plan)


@contextmanager
def _freezing(mishap: Mishap) -> Iterator[None]:
    make = Slot._sink

    def unfortunate(self: Slot) -> Any:
        return DyingSink(make(self), mishap.step, mishap.occurrence, frozen=Path(mishap.frozen))

    Slot._sink = unfortunate  # type: ignore[method-assign]
    try:
        yield
    finally:
        Slot._sink = make  # type: ignore[method-assign]


def _twice(plan: SlotPlan) -> SlotResult:
    """The attempt that gave way has failed; the other one's result counts."""
    with ThreadPoolExecutor(2) as pool:
        attempts = [pool.submit(copy_slot, plan) for _ in range(2)]
    for attempt in attempts:
        if attempt.exception() is None:
            return attempt.result()
    return attempts[0].result()


def main() -> int:
    """Runs `k2k` with a mishap and returns its exit code."""
    mishap = Mishap(**json.loads(sys.argv[1]))
    task.copy_slot = partial(copy_unluckily, mishap)  # type: ignore[attr-defined]
    with mishap.clocked():
        return run(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
