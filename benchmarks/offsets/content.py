"""What is in a topic: offsets and numbers of its records. R and S are found by it, not by any mapping."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader


@dataclass
class Content:
    """The committed records of one partition, in order.

    Attributes:
        offsets: Where each is.
        numbers: Which each is.
    """

    offsets: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))

    def position(self, lag: int, end: int) -> int:
        """Where a group stands that has so many records left to read.

        Args:
            lag: Records, at most as many as there are.
            end: Last stable offset of the partition: where a group stands that has read everything, markers too.
        """
        if lag > len(self.offsets):
            raise ValueError(f"a lag of {lag} in a partition of {len(self.offsets)} records")
        if lag == 0:
            return end
        # As consumers commit: the offset after the last record that was read. It may be a marker's.
        return self.offsets[-lag - 1] + 1 if lag < len(self.offsets) else self.offsets[0]

    def from_position(self, position: int) -> NDArray[np.int64]:
        """Numbers of the records that a reader gets from there on."""
        # Copies, because an array that is looked into cannot grow.
        start = int(np.searchsorted(np.array(self.offsets), position))
        return np.array(self.numbers[start:], np.int64)


class Error(NamedTuple):
    """How wrong a group's position on the target is.

    Attributes:
        again: R: records that the group gets again although it had read them.
        skipped: S: records that it had not read and never gets.
    """

    again: int
    skipped: int


def error_of(source: Content, position: int, target: Content, answer: int) -> Error:
    """Compares the records from the target position on with those from the source position on.

    Args:
        source: The source partition.
        position: Of the group, there.
        target: The target partition that it was copied to, completely.
        answer: The group's position there.
    """
    unread, offered = source.from_position(position), target.from_position(answer)
    again = np.isin(offered, unread, invert=True).sum()
    return Error(int(again), int(np.isin(unread, offered, invert=True).sum()))


class Follower:
    """Reads topics as they grow; used as a context manager.

    Args:
        cluster: Where.
        topics: They must be there.

    Attributes:
        contents: Of each partition, as far as it was read.
    """

    def __init__(self, cluster: Cluster, topics: list[str]) -> None:
        self._partitions = cluster.partitions_of(topics)
        self.contents = {partition: Content() for partition in self._partitions}
        properties = {"bootstrap.servers": cluster.servers}
        self._reader = LogReader(properties, dict.fromkeys(self._partitions, 0), committed_only=True, follow=True)

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()

    def read_to(self, last: Mapping[TopicPartition, int], seconds: float, ensure_running: Callable[[], None]) -> None:
        """Reads until the last record of each partition was seen.

        Args:
            last: Its number, by partition.
            seconds: Longest time to wait for it.
            ensure_running: Raises if what writes the topic has ended.

        Raises:
            TimeoutError: It was not seen.
        """
        deadline = Deadline(seconds)
        while behind := [at for at, number in last.items() if number not in self.contents[at].numbers[-1:]]:
            if deadline.expired():
                found = {str(at): (len(self.contents[at].numbers), last[at]) for at in behind}
                raise TimeoutError(f"not read to the last record in {seconds:g} s (records read, last number): {found}")
            ensure_running()
            for message in self._reader.poll(0.2):
                content = self.contents[TopicPartition(message.topic(), message.partition())]
                content.offsets.append(message.offset())
                content.numbers.append(int.from_bytes((message.value() or b"")[:8], "big"))
