"""A function of the user that does not come back from a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import set_command
from k2k_assets.core.stops.reason import ORDERS, StopReason
from k2k_assets.core.topic_partition import TopicPartition


@dataclass(frozen=True)
class FunctionTooSlow(StopReason, code="function-timed-out"):
    """A function of a rule of `transform` did not return in time.

    Attributes:
        source: The source partition.
        offset: Of the first record that the function was given.
        last: Offset of the last one.
        rule: The rule: its place in the pipeline file.
        function: The function, `module:function`.
        seconds: How many seconds it may take.
        place: Where in its code it was; empty if that is not known.
    """

    title = "a function of `transform` did not return in time"
    meaning = (
        "It ran for longer than `functionTimeout`, and was ended. All before the records that it had been given is "
        "copied, and nothing of these. The process in which it runs is its own: topics of other rules go on."
    )
    advice = (
        "Correct the function, or give its rule a longer `functionTimeout`, and start again: copying goes on from the "
        "first of these records. If one of them is the reason and is to be left out, let the function leave it out. "
        "The command goes on behind all of them, without them."
    )

    source: TopicPartition
    offset: int
    last: int
    rule: str
    function: str
    seconds: float
    place: str

    def found(self) -> str:
        place = self.place and f", in {self.place}"
        return (
            f"{self.rule}: the function {self.function} ran for more than {self.seconds:g} s (functionTimeout) on "
            f"{self.source}, offsets {self.offset} to {self.last}{place}"
        )

    def to_do(self) -> str:
        return (
            "Correct the function, or give its rule a longer functionTimeout, and start again. All before these "
            f"records is copied; to go on behind them, without them: {set_command(*self.source, self.last + 1)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 120, 1119, "transform[0].python", "my_rules:large_ones", 300.0, "large_ones (my_rules.py:6)")


@dataclass(frozen=True)
class FunctionEndsItsProcess(StopReason, code="function-crashed"):
    """A function of a rule of `transform` ends its process at a record.

    Attributes:
        source: The source partition.
        offset: Of the record.
        rule: The rule: its place in the pipeline file.
        function: The function, `module:function`.
        words: How the process ended.
        times: How often it was tried, with this record alone at the end.
    """

    title = "a function of `transform` ends its process"
    meaning = (
        "The process in which it runs has ended again and again when the function had this record: it was killed, for "
        "want of memory for example, its code has crashed, or it has called `os._exit`. All before the record is "
        "copied. The process in which it runs is its own: topics of other rules go on."
    )
    advice = (
        "Correct the function, or give the machine more memory, and start again: copying goes on from that record. "
        "`onError` of the rule says nothing about this: the next records might do the same. The next offset goes on "
        "behind this one, without it."
    )

    source: TopicPartition
    offset: int
    rule: str
    function: str
    words: str
    times: int

    def found(self) -> str:
        return (
            f"{self.rule}: the function {self.function} ends its process at the record at {self.source} offset "
            f"{self.offset}: {self.words}, at least {self.times} times in a row"
        )

    def to_do(self) -> str:
        return (
            "Correct the function, or give the machine more memory, and start again. All before the record is copied; "
            f"to go on behind it, without it: {set_command(*self.source, self.offset + 1)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 42, "transform[0].python", "my_rules:large_ones", "SIGSEGV", 3)
