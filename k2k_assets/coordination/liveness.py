"""Who is alive: how often a slot writes a heartbeat, and after how long without one it counts as dead. Pure.

A sign of life is a claim or a heartbeat; it is known by its offset, and a later one has a higher offset. It counts from
when it was read, on the clock of the reader: clocks of other machines are not trusted. So whoever begins to read takes
everybody for alive, until the heartbeat timeout has passed or another sign has come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from k2k_assets.control.assignment_state import Assignments
from k2k_assets.pipeline import Pipeline

_SHORTEST_HEARTBEAT = 0.2
# Of a slot that has claimed something and shows no sign any more: another attempt of it has released all.
_NO_SIGN = -1

K = TypeVar("K", bound=Hashable)


def heartbeat_interval_seconds(pipeline: Pipeline) -> float:
    """Longest time between two heartbeats of a slot."""
    return max(pipeline.coordination.assignment.grace_window.total_seconds() / 3, _SHORTEST_HEARTBEAT)


def heartbeat_timeout_seconds(pipeline: Pipeline) -> float:
    """After this long without a heartbeat an owner may be taken over from."""
    return max(pipeline.coordination.assignment.grace_window.total_seconds(), 3 * _SHORTEST_HEARTBEAT)


@dataclass(frozen=True, slots=True)
class LastSign:
    """The last sign of life of somebody.

    Attributes:
        sign: Its offset.
        time: When it was read first, or a little later, in seconds of the reader's clock.
    """

    sign: int
    time: float

    def is_alive(self, now: float, timeout: float) -> bool:
        """Whether the heartbeat timeout has not passed yet.

        Args:
            now: When the last reading began that has brought no later sign.
            timeout: The heartbeat timeout, seconds.
        """
        return now - self.time < timeout


def last_signs(signs: Mapping[K, int], before: Mapping[K, LastSign], now: float) -> dict[K, LastSign]:
    """The last sign of everybody in `signs`.

    Args:
        signs: What was read, offsets.
        before: What was known before.
        now: When the reading was over.
    """
    return {who: _last_sign(sign, before.get(who), now) for who, sign in signs.items()}


def _last_sign(sign: int, before: LastSign | None, now: float) -> LastSign:
    return before if before is not None and sign <= before.sign else LastSign(sign, now)


class Liveness:
    """Tells which slots are alive, while somebody follows the assignment topic.

    Args:
        state: The assignment topic, followed by somebody else.
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
        """To be called whenever something was read."""
        self._last |= last_signs(self._state.signs, self._last, self._clock())
        if self._first is None:
            self._first = dict(self._state.signs)

    def is_alive(self, owner: tuple[int, int]) -> bool:
        """Whether a slot may still copy.

        Of one that shows no sign any more, but has left a claim, the time counts since it was asked for first.

        Args:
            owner: Generation and slot.
        """
        now = self._clock()
        sign = self._state.signs.get(owner, _NO_SIGN)
        last = self._last[owner] = _last_sign(sign, self._last.get(owner), now)
        return last.is_alive(now, self._timeout)

    def has_shown(self, owner: tuple[int, int]) -> bool:
        """Whether a slot is alive for sure: it has shown a sign since the first reading.

        Args:
            owner: Generation and slot.
        """
        first = (self._first or {}).get(owner, _NO_SIGN)
        return self._first is not None and self._state.signs.get(owner, _NO_SIGN) > first


class Presence(BaseModel):
    """A continuous instance (`k2k start`) as the assignment topic tells of it.

    Attributes:
        sign: Offset of its last sign of life. Later there is a higher one, or the instance is dead.
        who: For people.
        run: Id of the Dagster run that it is; None for `k2k start`.
    """

    model_config = ConfigDict(frozen=True)

    sign: int
    who: str
    run: str | None = None


def continuous_instances(state: Assignments, pipeline: str, topics: Collection[str]) -> dict[str, Presence]:
    """The continuous instances that a run would take partitions from, by their names; dead ones are among them.

    Args:
        state: The assignment topic of the group.
        pipeline: Name of the pipeline that the run would be of.
        topics: Source topics that it selects: another pipeline of the group may copy them too.
    """
    copied_by = {claim.generation for claim in state.claims.values() if claim.topic in topics}
    return {
        instance.instance: Presence(
            # Its own record is the first sign: it has no slots yet while Spark starts.
            sign=max([generation, *(offset for (g, _), offset in state.signs.items() if g == generation)]),
            who=state.describe(generation),
            run=instance.run,
        )
        for generation, instance in state.instances.items()
        if instance.continuous and (instance.pipeline == pipeline or generation in copied_by)
    }


def unheard_since(state: Assignments, generation: int, before: int) -> bool:
    """Whether the records of a generation may be removed: by its own clock it has told nothing of itself since.

    This only tidies up, after a time in which clocks hardly differ: nobody is fenced for it, nor waited for.

    Args:
        state: The assignment topic of the group.
        generation: Which.
        before: Milliseconds since the epoch.
    """
    return state.heard.get(generation, 0) < before
