"""The request of an override: `TOPIC:PARTITION:WHERE`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural

Where = int | Literal["earliest", "latest", "current"]
_FORM = re.compile(r"(?P<topic>[A-Za-z0-9._-]+):(?P<partition>\d+|all):(?P<where>\d+|earliest|latest|end|current)")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One position to set.

    Attributes:
        topic: Source topic.
        partition: Source partition; None: all of the topic.
        where: An offset; `earliest`: the log start; `latest`: `Pipeline.readable_end`; `current`: the committed
            position.
    """

    topic: str
    partition: int | None
    where: Where

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Reads `TOPIC:PARTITION:WHERE`; `end` means the same as `latest`.

        Raises:
            ValueError: The text has another form.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(
                f"'{text}': wanted TOPIC:PARTITION:OFFSET; PARTITION may be 'all', OFFSET 'earliest', 'latest' or "
                "'current'"
            )
        where = "latest" if found["where"] == "end" else found["where"]
        partition = None if found["partition"] == "all" else int(found["partition"])
        return cls(found["topic"], partition, int(where) if where.isdigit() else where)  # type: ignore[arg-type]


def from_log_start(topics: Iterable[str]) -> tuple[Wanted, ...]:
    """What a reset wants: all partitions of the topics at their log start."""
    return tuple(Wanted(topic, None, "earliest") for topic in topics)


@dataclass(frozen=True, slots=True)
class Request:
    """An override of some positions.

    Attributes:
        wanted: The positions; of two for the same partition the later one counts.
        by: User and host.
        why: The user's reason; None if the user gave none.
        new_topic: Whether to accept that a source or target topic was deleted and created anew.
        foreign_records: Whether to accept records that others wrote to the target partitions.
        adopts: Of an adoption (`k2k-tool adopt`): the high watermark of the target partition of each source partition
            when it was looked at. None: it is none.
    """

    wanted: tuple[Wanted, ...]
    by: str
    why: str | None = None
    new_topic: bool = False
    foreign_records: bool = False
    adopts: Mapping[TopicPartition, int] | None = None
    topics: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", frozenset(one.topic for one in self.wanted))

    def by_partition(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Where]:
        """The requested position of each partition.

        Args:
            partitions: Existing partitions of the requested topics.

        Raises:
            Refused: A requested partition does not exist.
        """
        existing = sorted(partitions)
        asked: dict[TopicPartition, Where] = {}
        for one in self.wanted:
            meant = [tp for tp in existing if tp.topic == one.topic and one.partition in (None, tp.partition)]
            if not meant:
                count = sum(tp.topic == one.topic for tp in existing)
                there = plural(count, "partition")
                raise Refused(f"{one.topic}-{one.partition} does not exist: the source topic has {there}")
            asked.update(dict.fromkeys(meant, one.where))
        return dict(sorted(asked.items()))
