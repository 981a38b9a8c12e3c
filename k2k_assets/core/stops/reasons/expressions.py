"""A regular expression of the pipeline file that takes too long on the content of a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import set_command
from k2k_assets.core.stops.reason import ORDERS, StopReason
from k2k_assets.core.topic_partition import TopicPartition


@dataclass(frozen=True)
class MatchTooSlow(StopReason, code="match-timed-out"):
    """A condition of a rule of `transform` was not decided in time.

    Attributes:
        source: The source partition.
        offset: Of the record.
        rule: The rule: its place in the pipeline file.
        expression: The regular expression.
    """

    title = "a regular expression of `transform` takes too long on a record"
    meaning = (
        "The expression of a `matches` has more ways to match this text than can be tried; repetitions of repetitions "
        "do that. All before the record is copied. `onError` of the rule says nothing about this: how long a match "
        "takes is a matter of the machine too, and what becomes of a record must not be."
    )
    advice = (
        "Write the expression without repetitions of repetitions and start again: copying goes on from that record. "
        "The next offset goes on behind this one, without it."
    )

    source: TopicPartition
    offset: int
    rule: str
    expression: str

    def found(self) -> str:
        return (
            f"{self.rule}: it takes too long to match the regular expression '{self.expression}' against the record at "
            f"{self.source} offset {self.offset}"
        )

    def to_do(self) -> str:
        return (
            "Write the expression without repetitions of repetitions, and start again. All before the record is "
            f"copied; to go on behind it, without it: {set_command(*self.source, self.offset + 1)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 42, "transform[0].filter", "(a|a)*[bc]")
