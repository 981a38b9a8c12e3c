"""Reads a topic to its end, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.messages import Consumer, Message

_SETTINGS: dict[str, object] = {
    "enable.partition.eof": True,
    "enable.auto.offset.store": False,
    "fetch.queue.backoff.ms": 2,
    "fetch.error.backoff.ms": 100,
}


# A new client at most this often: a caller that polls without pause may get the same error each time.
_RENEW_SECONDS = 5.0


class NotReadToTheEnd(Exception):
    """A reader did not reach the end in time.

    Args:
        behind: Partitions, each with the offset reached and the end wanted.
    """

    def __init__(self, behind: Mapping[TopicPartition, tuple[int, int]]) -> None:
        super().__init__(", ".join(f"{tp} at {at} of {end}" for tp, (at, end) in behind.items()))
        self.behind = dict(behind)


class LogReader:
    """Reads partitions of a topic; replaces its client when that one fails.

    Args:
        properties: Consumer settings, librdkafka names.
        starts: The offsets to start at, by partition.
        committed_only: Whether to read committed records only.
        follow: Whether the reader stays open to follow the log; then its fetches wait longer at the broker.
        role: Names the cluster in errors.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        starts: Mapping[TopicPartition, int],
        committed_only: bool,
        follow: bool = False,
        role: str = "target",
    ) -> None:
        # If a partition ends with markers, its end shows only when a fetch returns empty, after `fetch.wait.max.ms`.
        wait = {"fetch.wait.max.ms": 100 if follow else 10}
        isolation = {"isolation.level": "read_committed" if committed_only else "read_uncommitted"}
        self._settings = {**_SETTINGS, **isolation, **wait}
        self._reached = dict(starts)
        self._properties = properties
        self._role = role
        self._consumer = self._client()
        self._is_doubtful = False
        self._renewed = float("-inf")
        try:
            clients.know_cluster(self._consumer, 15.0)
        except KafkaException as error:
            raise self._failed(clients.error_of(error)) from None
        self._assign()

    @property
    def reached(self) -> Mapping[TopicPartition, int]:
        """Next offset to read, by partition."""
        return self._reached

    def read_until(self, ends: Mapping[TopicPartition, int], deadline: Deadline) -> Iterator[list[Message]]:
        """Batches of records until each partition was read up to its end (high watermark).

        Raises:
            NotReadToTheEnd: Too late, because of an open transaction or a broker that does not answer.
        """
        late = False
        while behind := {tp: (self._reached[tp], end) for tp, end in ends.items() if self._reached[tp] < end}:
            if late:
                self._is_doubtful = True
                raise NotReadToTheEnd(behind)
            late = deadline.expired()  # the caller may have spent the time between two batches: one more poll
            yield self.poll(min(0.5, deadline.remaining()))

    def poll(self, timeout: float) -> list[Message]:
        """Returns the records that have arrived; waits up to `timeout` seconds for one if there are none.

        Raises:
            ClusterUnreachable: The cluster refuses the read.
        """
        if self._is_doubtful and not self._goes_on_with_another(timeout):
            return []
        messages = self._consumer.consume(10_000, 0)
        if not messages and timeout > 0:
            one = self._consumer.poll(timeout)
            messages = [one] if one is not None else []
        records, ends = [], []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.append(message)
            elif not (error.retriable() or clients.is_unreachable(error) or clients.is_about_the_group(error)):
                self._is_doubtful = True  # the next client reads these messages again: no position has advanced yet
                raise self._failed(error)
        for end in ends:
            self._advance(end.topic(), end.partition(), end.offset())
        last = zip(
            zip(map(Message.topic, records), map(Message.partition, records), strict=True),
            map(Message.offset, records),
            strict=True,
        )
        for (topic, partition), offset in dict(last).items():
            self._advance(topic, partition, offset + 1)
        return records

    def doubt_if_behind(self, ends: Mapping[TopicPartition, int]) -> None:
        """Lets the next poll replace a silent client if it has not reached ends that it could have read.

        Args:
            ends: Offsets up to which records could be read, by partition.
        """
        self._is_doubtful |= any(self._reached[tp] < end for tp, end in ends.items())

    def read_from(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Lets the next poll go on with a new client at these offsets; new partitions are read too."""
        self._reached.update(offsets)
        self._is_doubtful, self._renewed = True, float("-inf")

    def close(self) -> None:
        """Closes the client."""
        self._consumer.close()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _client(self) -> Consumer:
        return clients.consumer(self._properties, self._settings)

    def _assign(self) -> None:
        self._consumer.assign([KafkaTopicPartition(tp.topic, tp.partition, at) for tp, at in self._reached.items()])

    def _goes_on_with_another(self, timeout: float) -> bool:
        """Replaces the client, which may never find its brokers again; waits if the last replacement is too recent."""
        too_soon = self._renewed + _RENEW_SECONDS - time.monotonic()
        if too_soon > timeout:
            time.sleep(timeout)
            return False
        time.sleep(max(0.0, too_soon))
        self._consumer.close()
        self._consumer = self._client()
        self._is_doubtful, self._renewed = False, time.monotonic()
        self._assign()
        return True

    def _failed(self, error: KafkaError) -> ClusterUnreachable:
        return clients.unreachable(self._role, self._properties, error.str())

    def _advance(self, topic: str, partition: int, offset: int) -> None:
        tp = TopicPartition(topic, partition)
        self._reached[tp] = max(self._reached[tp], offset)
