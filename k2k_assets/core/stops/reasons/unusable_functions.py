"""A function of the user that cannot be used at all, whatever the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import set_command
from k2k_assets.core.stops.reason import ORDERS, StopReason
from k2k_assets.core.topic_partition import TopicPartition


@dataclass(frozen=True)
class FunctionCannotBeLoaded(StopReason, code="function-not-loaded"):
    """A function of a rule of `transform` cannot be loaded.

    Attributes:
        source: The source partition.
        offset: Of the first record for it.
        rule: The rule: its place in the pipeline file.
        function: The function, `module:function`.
        words: Why.
    """

    title = "a function of `transform` cannot be loaded"
    meaning = (
        "Its module is not there where the copy runs, its import raises an error or ends its process, its code has "
        "changed since the copy began, or it has no such function. All before the record is copied. The process in "
        "which functions run is their own: topics of other rules go on."
    )
    advice = (
        "`k2k validate` says the same of a file, where it is called. On a Spark cluster the module has to be "
        "installed on the executors. Correct the module, and start again: copying goes on from that record, with the "
        "code as it is then."
    )

    source: TopicPartition
    offset: int
    rule: str
    function: str
    words: str

    def found(self) -> str:
        return (
            f"{self.rule}: the function {self.function} cannot be loaded for the records from {self.source} offset "
            f"{self.offset} on: {self.words}"
        )

    def to_do(self) -> str:
        return "Correct its module, and start again; all before that record is copied"

    @classmethod
    def example(cls) -> Self:
        words = "the module my_rules cannot be imported: ModuleNotFoundError: No module named 'numpy'"
        return cls(ORDERS, 42, "transform[0].python", "my_rules:large_ones", words)


@dataclass(frozen=True)
class FunctionKeepsCrashing(StopReason, code="function-keeps-crashing"):
    """A function of a rule of `transform` ends its process again and again, at no record in particular.

    Attributes:
        source: The source partition of the last time.
        offset: Of the first record that the function had then.
        last: Offset of the last one.
        rule: The rule: its place in the pipeline file.
        function: The function, `module:function`.
        words: How the process ended the last time.
        times: How often it has ended.
        minutes: Within how many minutes.
    """

    title = "a function of `transform` ends its process again and again"
    meaning = (
        "The process in which it runs has ended many times within minutes, and no record was the reason: tried again, "
        "each got its answer. Perhaps it needs more memory than there is, or its native code crashes now and then. All "
        "before these records is copied. The process in which it runs is its own: topics of other rules go on."
    )
    advice = (
        "Correct the function, or give the machine more memory, and start again: copying goes on from the first of "
        "these records. The command goes on behind all of them, without them."
    )

    source: TopicPartition
    offset: int
    last: int
    rule: str
    function: str
    words: str
    times: int
    minutes: int

    def found(self) -> str:
        return (
            f"{self.rule}: the function {self.function} has ended its process {self.times} times within "
            f"{self.minutes} minutes for {self.source.topic}, at no record in particular: the last time {self.words}, "
            f"on {self.source}, offsets {self.offset} to {self.last}"
        )

    def to_do(self) -> str:
        return (
            "Correct the function, or give the machine more memory, and start again. All before these records is "
            f"copied; to go on behind them, without them: {set_command(*self.source, self.last + 1)}"
        )

    @classmethod
    def example(cls) -> Self:
        where = ORDERS, 120, 1119, "transform[0].python", "my_rules:large_ones"
        return cls(*where, "SIGKILL, perhaps because memory was short", 20, 10)
