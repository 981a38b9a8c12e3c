"""Runs the slots of one generation, and collects their results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from k2k_assets.core import errors
from k2k_assets.core.errors import K2KError
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.task import SlotResult

Runner = Callable[[Sequence[SlotPlan]], list[SlotResult]]
"""Runs one slot for each plan, and returns when all have ended. The first line of an error tells its cause."""


class Job:
    """Runs the slots in a thread of its own, because a Spark job returns its rows only when all slots have ended.

    Args:
        runner: Runs the slots.
        plans: One plan for each slot; without plans the job ends at once.

    Attributes:
        done: Set when the job has ended.
        failure: The error of the runner, as for a killed worker or a lost executor.
        partitions: The partitions to copy.
    """

    def __init__(self, runner: Runner, plans: Sequence[SlotPlan]) -> None:
        self.done = threading.Event()
        self.failure: Exception | None = None
        self.partitions = frozenset(each.source for plan in plans for each in plan.partitions)
        self._results: list[SlotResult] = []
        if not plans:
            self.done.set()
            return
        threading.Thread(target=self._run, args=(runner, plans), name="k2k-slots", daemon=True).start()

    @property
    def superseded(self) -> str | None:
        """The message of a slot that found commit records of a newer generation; None if none did."""
        return next((result.message for result in self._results if result.error == "Superseded"), None)

    @property
    def stopped(self) -> dict[TopicPartition, StopReason]:
        """Stopped partitions, with their reasons."""
        return {tp: reason for result in self._results for tp, reason in result.stopped.items()}

    @property
    def has_stopped_all(self) -> bool:
        """Whether the slots have stopped all partitions."""
        return bool(self.partitions) and self.partitions <= self.stopped.keys()

    @property
    def superseded_by(self) -> dict[TopicPartition, str]:
        """Partitions that were left to other instances, with these."""
        return {tp: owner for result in self._results for tp, owner in result.superseded_by.items()}

    def raise_errors(self) -> None:
        """Raises the error of a slot, unless it was superseded.

        Raises:
            K2KError: The slot's error, in its own class.
        """
        for result in self._results:
            if result.error and result.error != "Superseded":
                kind: type[K2KError] = getattr(errors, result.error)
                raise kind(result.message)

    def _run(self, runner: Runner, plans: Sequence[SlotPlan]) -> None:
        try:
            self._results = runner(plans)
        except Exception as error:
            self.failure = error
        finally:
            self.done.set()
