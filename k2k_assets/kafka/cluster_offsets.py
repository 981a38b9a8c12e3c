"""Offsets of partitions, as a cluster tells them: log starts, ends, by time, and the leader epochs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.answers import ClusterAnswers, Unanswered, Unsettled, ask_until_settled
from k2k_assets.kafka.connection import Connection

Which = Literal["earliest", "latest", "stable"]

_SPECS: dict[Which, tuple[OffsetSpec, IsolationLevel]] = {
    "earliest": (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    "latest": (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    "stable": (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
}


class ClusterOffsets(Connection):
    """The part of a `Cluster` that tells offsets; each question waits for the leaders of its partitions."""

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        which: Which,
        without_leader: dict[TopicPartition, str] | None = None,
        patience: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Log starts or ends of partitions; partitions that do not exist are left out.

        Args:
            partitions: Existing partitions.
            which: `earliest` = log start, `latest` = high watermark, `stable` = last stable offset.
            without_leader: Gets the partitions without a leader, with the reasons, if others have one. None: all
                leaders have to answer.
            patience: Seconds to wait for leaders once a broker has answered; 0 to ask once; None for the time-out of
                all calls.

        Raises:
            NoLeader: A partition that has to answer has no leader, or no partition has one.
            ClusterUnreachable: No answer in time.
            Refused: The principal may not describe one of the topics.
        """
        spec, isolation = _SPECS[which]
        ends = self._list(dict.fromkeys(partitions, spec), isolation, without_leader, patience)
        return {tp: int(found.offset) for tp, found in ends.items()}

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader epoch at the end of each partition; partitions that do not exist, or have none, are left out."""
        ends = self._list(dict.fromkeys(partitions, _SPECS["latest"][0]))
        return {
            tp: end.leader_epoch for tp, end in ends.items() if end.leader_epoch is not None and end.leader_epoch >= 0
        }

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int | None:
        """The first offset whose record is not older than a time; the last stable offset if there is no such record.

        Args:
            partition: The partition; if it does not exist, the answer is None.
            timestamp: Milliseconds since the epoch, UTC.
        """
        return self.offsets_at([partition], timestamp).get(partition)

    def offsets_at(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        without_leader: dict[TopicPartition, str] | None = None,
        patience: float | None = None,
    ) -> dict[TopicPartition, int]:
        """As `offset_at`, of several partitions; those that do not exist are left out.

        Args:
            partitions: Existing partitions.
            timestamp: Milliseconds since the epoch, UTC.
            without_leader: As for `offsets`.
            patience: As for `offsets`.
        """
        spec = OffsetSpec.for_timestamp(timestamp)
        found = self._list(dict.fromkeys(partitions, spec), without_leader=without_leader, patience=patience)
        younger = [tp for tp, at in found.items() if at.offset < 0]
        ends = self.offsets(younger, "stable", without_leader, patience)
        return {tp: int(at.offset) for tp, at in found.items() if at.offset >= 0} | ends

    def _list(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        without_leader: dict[TopicPartition, str] | None = None,
        patience: float | None = None,
    ) -> dict[TopicPartition, ListOffsetsResultInfo]:
        """Offsets of those partitions that exist; see `offsets`."""
        if not wanted:
            return {}

        def ask(partitions: Collection[TopicPartition]) -> ClusterAnswers[ListOffsetsResultInfo | None]:
            specs = {KafkaTopicPartition(*tp): wanted[tp] for tp in partitions}
            asked = self.admin.list_offsets(specs, isolation_level=isolation, request_timeout=self.timeout)
            places = {TopicPartition(t.topic, t.partition): future for t, future in asked.items()}
            unknown: set[TopicPartition] = set()
            answers = ClusterAnswers.of({tp: partial(self._await_offset, f, tp, unknown) for tp, f in places.items()})
            if unknown:
                counts = self.topics()  # the client knows them from now on
                for tp in unknown:
                    if tp.partition >= counts.get(tp.topic, 0):
                        del answers.failed[tp]
                        answers.found[tp] = None
            return answers

        if not self._knows_leaders:
            # A new client that has to find the leaders itself does so only one to three seconds later.
            self._metadata()
        try:
            found = ask_until_settled(self, wanted, ask, without_leader, patience)
        except Unanswered:
            why = self._last_error or "offsets were asked for, no answer in time"
            raise clients.unreachable(self.role, self._properties, why) from None
        return {tp: end for tp, end in found.items() if end is not None}

    def _await_offset(
        self, future: Future[Any], tp: TopicPartition, unknown: set[TopicPartition]
    ) -> ListOffsetsResultInfo | None:
        """Waits for one offset: None if the partition does not exist, negative if it has no such offset.

        Args:
            future: The future that the admin client returned.
            tp: The partition.
            unknown: Gets the partition if the client does not know it, because it was added since the client looked.
        """
        found: ListOffsetsResultInfo | Literal["unknown"] | None = self.answer(
            future, {KafkaError.UNKNOWN_TOPIC_OR_PART: None, KafkaError._UNKNOWN_PARTITION: "unknown"}
        )
        if found == "unknown":
            unknown.add(tp)
            raise Unsettled("the client does not know the partition yet")
        if found is not None and found.offset == OFFSET_INVALID:
            # librdkafka 2.16 reports no error for a failed request: it returns its initial value.
            raise Unanswered
        return found
