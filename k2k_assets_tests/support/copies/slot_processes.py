"""Runs each slot in its own process, like Spark's workers, optionally with a fault at a step."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, cast

import psutil

from k2k_assets.core.deadline import wait_until
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.spark.slot_task import _log_to_stderr, end_with_parent
from k2k_assets_tests.support.brokers.kafka import PATIENCE
from k2k_assets_tests.support.copies.copying import DyingSink, kill_living
from k2k_assets_tests.support.copies.unlucky import NONE, Mishap, copy_unluckily

# Quick to start, because it is forked from a process that has imported everything and has no threads.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["k2k_assets_tests.support.copies.slot_processes"])


class Misfortune(NamedTuple):
    """A signal that a slot sends itself at a step (see `DyingSink`), the `occurrence`-th time, from 1."""

    step: str
    occurrence: int
    number: int = signal.SIGSTOP


class SlotProcesses:
    """A runner.

    Args:
        misfortune: Befalls the first session of each slot of the first job.
        mishap: Of every slot.

    Attributes:
        workers: All processes so far.
    """

    def __init__(self, misfortune: Misfortune | None = None, mishap: Mishap = NONE) -> None:
        self._misfortune = misfortune
        self._mishap = mishap
        self.workers: list[BaseProcess] = []

    def __call__(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one process a plan.

        Raises:
            RuntimeError: One died; the others are left alone, which is worse than what Spark does with them.
        """
        misfortune, self._misfortune = self._misfortune, None
        open_ends: list[Connection] = []
        for plan in plans:
            mine, its = _PROCESSES.Pipe(duplex=False)
            worker = _PROCESSES.Process(target=_copy, args=(plan, its, misfortune, self._mishap), daemon=True)
            worker.start()
            its.close()
            self.workers.append(worker)
            open_ends.append(mine)
        results: list[SlotResult] = []
        while open_ends:
            for ready in wait(open_ends):
                end = cast("Connection", ready)
                open_ends.remove(end)
                try:
                    results.append(end.recv())
                except EOFError:
                    raise RuntimeError("a slot's process died") from None
        return results

    def await_frozen(self, seconds: float = 0.0) -> None:
        """Returns when a slot has been frozen for so long."""
        wait_until(self._frozen, PATIENCE, "a slot to stop itself")
        since = time.monotonic()
        wait_until(lambda: time.monotonic() - since >= seconds, seconds + 1, "time-outs to pass")

    def thaw(self) -> None:
        """Lets frozen slots go on."""
        for process in self._frozen():
            process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Kills what is left."""
        for worker in self.workers:
            kill_living(worker)
            worker.join(10)

    def _frozen(self) -> list[psutil.Process]:
        living = [psutil.Process(worker.pid) for worker in self.workers if worker.is_alive()]
        return [process for process in living if process.status() == psutil.STATUS_STOPPED]


def _copy(plan: SlotPlan, answer: Connection, misfortune: Misfortune | None, mishap: Mishap) -> None:
    _log_to_stderr()
    end_with_parent()
    if misfortune:
        make, made = Slot._sink, list[DyingSink]()

        def unfortunate(self: Slot) -> Any:
            if any(sink.befallen for sink in made):
                return make(self)
            made.append(DyingSink(make(self), *misfortune))
            return made[-1]

        Slot._sink = unfortunate  # type: ignore[method-assign]
    answer.send(copy_unluckily(mishap, plan))
