"""`throttle`: how many bytes a second are copied at most."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.pipeline.sections.regular_expression import RegularExpression
from k2k_assets.pipeline.sections.values import Count, Section


class ThrottleRule(Section):
    """The limit of some topics."""

    pattern: RegularExpression = Field(
        description="Topics: a regular expression for whole names of source topics (required). All topics that it "
        "matches share the limit."
    )
    bytes_per_second: Count = Field(description="Most bytes a second that these topics are copied at (required).")


class Throttle(Section):
    """How many bytes a second are copied at most.

    By whole batches (`transport.form`) these are the source's batches as they are, compressed where they are; by single
    records the keys and values, uncompressed.
    """

    bytes_per_second: Count | None = Field(
        default=None,
        description="Most bytes a second that the pipeline copies, over all its slots and instances: each slot has the "
        "share of its source partitions. Absent: no limit.",
    )
    topics: tuple[ThrottleRule, ...] = Field(
        default=(),
        description="Limits of topics, within that of the pipeline; the first rule that matches a topic counts. A rule "
        "has a consumer of its own in each slot.",
    )

    @property
    def is_set(self) -> bool:
        """Whether anything is limited."""
        return self.bytes_per_second is not None or bool(self.topics)

    def rule_of(self, topic: str) -> int | None:
        """Index of the rule for a source topic; None if no rule matches it."""
        matching = (i for i, rule in enumerate(self.topics) if compile_java(rule.pattern).matches(topic))
        return next(matching, None)

    def sharing(self, partitions: Mapping[str, int]) -> tuple[int, ...]:
        """How many source partitions share each limit: that of the pipeline, then that of each rule.

        Args:
            partitions: Number of partitions of each source topic of the pipeline.
        """
        counts = [sum(partitions.values()), *[0] * len(self.topics)]
        for topic, count in partitions.items():
            if (rule := self.rule_of(topic)) is not None:
                counts[rule + 1] += count
        return tuple(counts)
