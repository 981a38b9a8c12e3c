"""What somebody asks for: `TOPIC:PARTITION:WHERE`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
        where: An offset; `earliest`: the log start; `latest`: as far as can be read; `current`: the committed
            position.
    """

    topic: str
    partition: int | None
    where: Where

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Reads `TOPIC:PARTITION:WHERE`; `end` is another word for `latest`.

        Raises:
            ValueError: It is something else.
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


@dataclass(frozen=True, slots=True)
class Request:
    """An override of some positions.

    Attributes:
        wanted: Which; a later one wins over an earlier one for the same partition.
        by: Who asks: user and host.
        why: In their words.
        new_topic: Accept that a source or target topic was deleted and created anew.
        foreign_records: Accept what others wrote to the target partitions.
    """

    wanted: tuple[Wanted, ...]
    by: str
    why: str | None = None
    new_topic: bool = False
    foreign_records: bool = False
    topics: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", frozenset(one.topic for one in self.wanted))

    def by_partition(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Where]:
        """What is asked for each partition.

        Args:
            partitions: Those that exist, of the topics asked for.

        Raises:
            Refused: One that is asked for does not exist.
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
