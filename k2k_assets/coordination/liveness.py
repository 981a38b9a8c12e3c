"""Tells which slots are alive: how often they write heartbeats, and when a slot without one counts as dead. Pure.

A sign of life is a claim or a heartbeat, identified by its offset: a later sign has a higher offset. Its age counts
from when the reader read it, on the reader's clock, because clocks of other machines are not trusted. So a new reader
takes every slot for alive until the heartbeat timeout has passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from k2k_assets.control.assignment_state import Assignments
from k2k_assets.pipeline import Pipeline

_SHORTEST_HEARTBEAT = 0.2
# Stands for the offset of a slot that has claimed partitions but has no sign in the topic any more: another attempt of
# the same slot has released everything.
_NO_SIGN = -1

K = TypeVar("K", bound=Hashable)


def heartbeat_interval_seconds(pipeline: Pipeline) -> float:
    """Longest time between two heartbeats of a slot, in seconds."""
    return max(pipeline.coordination.assignment.grace_window.total_seconds() / 3, _SHORTEST_HEARTBEAT)


def heartbeat_timeout_seconds(pipeline: Pipeline) -> float:
    """Seconds without a heartbeat after which others may take over a slot's partitions: `graceWindow`."""
    return max(pipeline.coordination.assignment.grace_window.total_seconds(), 3 * _SHORTEST_HEARTBEAT)


@dataclass(frozen=True, slots=True)
class LastSign:
    """The last sign of life of a slot, an instance or a mapper.

    Attributes:
        sign: Its offset.
        time: When the reader first saw it, or a little later, in seconds of the reader's clock.
    """

    sign: int
    time: float

    def is_alive(self, now: float, timeout: float) -> bool:
        """Whether the heartbeat timeout has not passed yet.

        Args:
            now: Begin of the last read that brought no later sign.
            timeout: The heartbeat timeout, seconds.
        """
        return now - self.time < timeout


def last_signs(signs: Mapping[K, int], before: Mapping[K, LastSign], now: float) -> dict[K, LastSign]:
    """Updates the last signs with a read; entries that are not in `signs` are dropped.

    Args:
        signs: Offsets of the last signs, as just read.
        before: The last signs known before.
        now: End of the read.
    """
    return {who: _last_sign(sign, before.get(who), now) for who, sign in signs.items()}


def last_signs_of_runs(
    runs: Iterable[str], signs: Mapping[str, int], before: Mapping[str, LastSign], now: float
) -> dict[str, LastSign]:
    """Updates the last signs of Dagster runs in progress with a read.

    A run that has no sign there keeps its last one: it removes its heartbeat between two steps. One that has never been
    heard is silent from the first look on.

    Args:
        runs: Ids of the runs in progress.
        signs: Offsets of the last heartbeats, as just read.
        before: The last signs known before.
        now: End of the read.
    """
    found = last_signs(signs, before, now)
    return {run: found.get(run) or before.get(run) or LastSign(_NO_SIGN, now) for run in runs}


def _last_sign(sign: int, before: LastSign | None, now: float) -> LastSign:
    return before if before is not None and sign <= before.sign else LastSign(sign, now)


class Liveness:
    """Tells which slots are alive. Its owner follows the assignment topic, and calls `note` after each read.

    Args:
        state: State of the assignment topic, which the owner updates.
        timeout: The heartbeat timeout, seconds.
        clock: Seconds that only rise.
    """

    def __init__(self, state: Assignments, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._timeout = timeout
        self._clock = clock
        self._last: dict[tuple[int, int], LastSign] = {}
        self._first: dict[tuple[int, int], int] | None = None

    def note(self) -> None:
        """Takes in the signs of a read; the owner calls it after each read."""
        self._last |= last_signs(self._state.signs, self._last, self._clock())
        if self._first is None:
            self._first = dict(self._state.signs)

    def is_alive(self, owner: tuple[int, int]) -> bool:
        """Whether a slot may still copy.

        A slot without any sign that has left a claim is alive for one heartbeat timeout from the first call on.

        Args:
            owner: Generation and number of the slot.
        """
        now = self._clock()
        sign = self._state.signs.get(owner, _NO_SIGN)
        last = self._last[owner] = _last_sign(sign, self._last.get(owner), now)
        return last.is_alive(now, self._timeout)

    def has_shown(self, owner: tuple[int, int]) -> bool:
        """Whether a slot is certainly alive: it has written a sign since the first read.

        Args:
            owner: Generation and number of the slot.
        """
        first = (self._first or {}).get(owner, _NO_SIGN)
        return self._first is not None and self._state.signs.get(owner, _NO_SIGN) > first


class Presence(BaseModel):
    """A continuous instance (`k2k start`, or a Dagster run) in the assignment topic.

    Attributes:
        sign: Offset of its last sign of life; it rises as long as the instance is alive.
        who: Text for people that names it.
        run: Id of its Dagster run; None for `k2k start`.
    """

    model_config = ConfigDict(frozen=True)

    sign: int
    who: str
    run: str | None = None


def continuous_instances(state: Assignments, pipeline: str, topics: Collection[str]) -> dict[str, Presence]:
    """The continuous instances from which a new run would take partitions, by name, dead ones included.

    Args:
        state: State of the assignment topic.
        pipeline: Name of the new run's pipeline.
        topics: Source topics that the pipeline selects; another pipeline of the group may copy them too.
    """
    copied_by = {claim.generation for claim in state.claims.values() if claim.topic in topics}
    return {
        instance.instance: Presence(
            # The instance record is its first sign: while Spark starts there are no slots.
            sign=max([generation, *(offset for (g, _), offset in state.signs.items() if g == generation)]),
            who=state.describe(generation),
            run=instance.run,
        )
        for generation, instance in state.instances.items()
        if instance.continuous and (instance.pipeline == pipeline or generation in copied_by)
    }


def unheard_since(state: Assignments, generation: int, before: int) -> bool:
    """Whether a generation has written no record since a moment, by its own clock, so that its records may be removed.

    Other machines' clocks are good enough for this: it only tidies up after a long time, and fences nobody.

    Args:
        state: State of the assignment topic.
        generation: The generation.
        before: The moment, in milliseconds since the epoch.
    """
    return state.heard.get(generation, 0) < before
