"""The source may hold copies that would come back as new records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.commands import set_command
from k2k_assets.core.stops.reason import ORDERS, StopReason
from k2k_assets.core.topic_partition import TopicPartition


@dataclass(frozen=True)
class UnmarkedCopies(StopReason, code="unmarked-copies"):
    """The pipeline back has made copies on the source by which this pipeline cannot know them.

    Attributes:
        source: The source partition.
        position: Where this pipeline would go on.
        log_end: The end of the source partition.
        pipeline: Name of the pipeline back.
        header: Name of the header by which this pipeline knows copies.
        value: What it holds.
    """

    title = "copies without the marker would come back"
    meaning = (
        "The pipeline back has copied into the topic before it was bidirectional, or when `name`, `bidirectional.mode` "
        "or `bidirectional.headers` were others ([bidirectional.md](bidirectional.md#adding-the-second-direction)); or "
        "a release did that does not note the marker. Which of the unread records are such copies nobody can tell."
    )
    advice = (
        "The first command goes on behind all that the source holds by then, also behind unread records that others "
        "have written there: an offset in place of `latest` copies from there on. The second copies all, copies too."
    )

    source: TopicPartition
    position: int
    log_end: int
    pipeline: str
    header: str
    value: str

    def found(self) -> str:
        return (
            f"among what is not read yet, {self.source} offsets {self.position} to {self.log_end - 1}, there may be "
            f"copies that the pipeline back ({self.pipeline}) made without the marker '{self.header}: {self.value}': "
            "they would be copied back as new records"
        )

    def to_do(self) -> str:
        behind, all_of_them = (set_command(*self.source, where) for where in ("latest", self.position))
        return (
            "Let that pipeline mark its copies first, with the same 'bidirectional' in both files (and the same 'name' "
            f"in mode 'pipeline'). To begin behind what the source holds then: {behind}; to copy it all the same: "
            f"{all_of_them}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(ORDERS, 0, 40, "orders-both-ways", "__k2k_bidirectional", "orders-both-ways")
