"""Watches a call of a function: says so when it lasts long, and ends it when it lasts too long."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.log_fields import about
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.functions.answers import FunctionTimedOut

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("k2k.replication")

_FIRST_WARNING, _LONGEST_PAUSE = 10.0, 300.0
LOADING_SECONDS = 60.0
"""A module may load for at least so many seconds, whatever the limit of its function is."""
_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)')
_NAMED_FRAMES = 2


class RuleFunction(NamedTuple):
    """The function of a rule.

    Attributes:
        rule: Name of the rule, `transform[0]`.
        name: The function, `module:function`.
        code: The digest of its module's source.
        timeout: How many seconds it may take for a batch.
        pattern: Its source topics, a regular expression of Java.
    """

    rule: str
    name: str
    code: str
    timeout: float
    pattern: str = ".*"

    @property
    def module(self) -> str:
        """Its module."""
        return self.name.partition(":")[0]


class GivenRecords(NamedTuple):
    """The records of a call.

    Attributes:
        source: Their source partition.
        first: Offset of the first.
        last: Offset of the last.
        number: How many they are.
    """

    source: TopicPartition
    first: int
    last: int
    number: int

    @classmethod
    def of(cls, given: pa.RecordBatch) -> GivenRecords:
        """Those of a record batch, which has some."""
        topic, partition, offset = (given.column(name) for name in ("topic", "partition", "offset"))
        first, last = offset[0].as_py(), offset[len(offset) - 1].as_py()
        return cls(TopicPartition(topic[0].as_py(), partition[0].as_py()), first, last, len(offset))


class CallWatch:
    """Watches one call.

    Args:
        function: The function.
        given: Its records.
        place: Tells where in its code it is; empty if that is not known.
        clock: The clock.
        loading: How many seconds its module may load at least.
    """

    def __init__(
        self,
        function: RuleFunction,
        given: pa.RecordBatch,
        place: Callable[[], str],
        clock: Clock = SYSTEM_CLOCK,
        loading: float = LOADING_SECONDS,
    ) -> None:
        self._function, self._given, self._place, self._clock = function, given, place, clock
        self._limit = max(function.timeout, loading)
        self._begin()

    def loaded(self) -> None:
        """Notes that its process has loaded the function, and is given the records now."""
        self._limit = self._function.timeout
        self._begin()

    def _begin(self) -> None:
        self._began = self._clock.monotonic()
        self._next_warning = _FIRST_WARNING

    def look(self) -> None:
        """Warns if the call has lasted long, again and again.

        Raises:
            FunctionTimedOut: It has lasted for longer than it may.
        """
        seconds = self._seconds()
        if seconds >= self._limit:
            raise FunctionTimedOut(self._limit, self._place())
        if seconds >= self._next_warning:
            self._next_warning = seconds + min(seconds, _LONGEST_PAUSE)
            place = self._place()
            limit = f"it may take {self._limit:g} s (functionTimeout)"
            self._warn(f"has been running for {seconds:.0f} s", f"{place and f'it is in {place}; '}{limit}")

    def abandoned(self) -> None:
        """Says that the call was ended because its slot does not wait for it any more."""
        self._warn(
            f"was ended after {self._seconds():.0f} s, because its slot has to stop or to go on without it",
            "nothing of these records is copied, and no position behind them is committed",
        )

    def crashed(self, words: str) -> None:
        """Says that its process has ended."""
        self._warn(f"has ended its process ({words})", "it gets them again, fewer at a time, or the topic is stopped")

    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def _warn(self, what: str, more: str) -> None:
        records = GivenRecords.of(self._given)
        log.warning(
            "%s.python: the function %s %s on %s, offsets %d to %d (%s); %s",
            self._function.rule, self._function.name, what, records.source, records.first, records.last,
            plural(records.number, "record"), more,
            extra=about(offset=records.first),
        )  # fmt: skip


def place_of(stack: Iterable[str], last_file: str) -> str:
    """Where a function is.

    Args:
        stack: Lines of a stack, as `faulthandler` writes it: the most recent call first.
        last_file: The file with the call of the function.
    """
    frames = []
    for found in filter(None, map(_FRAME.search, stack)):
        if found["file"] == last_file:
            break
        frames.append(f"{found['function']} ({PurePath(found['file']).name}:{found['line']})")
    inner, outer = frames[:1], frames[1:][-(_NAMED_FRAMES - 1) :]
    return ", called by ".join([*inner, *outer])
