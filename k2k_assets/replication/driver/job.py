"""The slots of one generation at work, and what became of them."""

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
"""Runs one slot for each plan and returns when all have ended."""


class Job:
    """The slots, run in a thread of its own: its rows come only when all slots have ended.

    Args:
        runner: Runs the slots.
        plans: One a slot; without any the job has ended at once.

    Attributes:
        done: Set at the end.
        failure: What the runner raised: a killed worker, a lost executor.
    """

    def __init__(self, runner: Runner, plans: Sequence[SlotPlan]) -> None:
        self.done = threading.Event()
        self.failure: Exception | None = None
        self._results: list[SlotResult] = []
        if not plans:
            self.done.set()
            return
        threading.Thread(target=self._run, args=(runner, plans), name="k2k-slots", daemon=True).start()

    @property
    def superseded(self) -> str | None:
        """What a slot said that found commit records of a newer generation; None if none did."""
        return next((result.message for result in self._results if result.error == "Superseded"), None)

    @property
    def stopped(self) -> dict[TopicPartition, StopReason]:
        """Partitions that were stopped, with the reason."""
        return {tp: reason for result in self._results for tp, reason in result.stopped.items()}

    @property
    def superseded_by(self) -> dict[TopicPartition, str]:
        """Partitions that were left to others, with who that is."""
        return {tp: owner for result in self._results for tp, owner in result.superseded_by.items()}

    def raise_errors(self) -> None:
        """Raises what made a slot end, except that it was superseded.

        Raises:
            K2KError: Of the class that the slot raised.
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
