"""Offsets of partitions, as a cluster tells them: log starts, ends, by time, and the leader epochs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal, NamedTuple

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.answers import ClusterAnswers, SettledAnswers, Unanswered, ask_until_settled
from k2k_assets.kafka.connection import Connection

Which = Literal["earliest", "latest", "stable"]

_SPECS: dict[Which, tuple[OffsetSpec, IsolationLevel]] = {
    "earliest": (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    "latest": (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    "stable": (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
}

_Absent = Literal["does not exist", "not known to the client"]


class LedOffsets(NamedTuple):
    """Offsets of the partitions that have a leader, and why the others have none.

    Attributes:
        offsets: Offsets by partition; partitions that do not exist are left out.
        offline: Partitions without a leader, or hidden from the principal, with the reason.
    """

    offsets: dict[TopicPartition, int]
    offline: dict[TopicPartition, str]


class ClusterOffsets(Connection):
    """The part of a `Cluster` that tells offsets.

    The leaders of all partitions have to answer, and are waited for until the time-out of all calls. Questions that
    begin with `led_` answer for the partitions that have a leader.
    """

    def offsets(self, partitions: Iterable[TopicPartition], which: Which) -> dict[TopicPartition, int]:
        """Log starts or ends of partitions; partitions that do not exist are left out.

        Args:
            partitions: Existing partitions.
            which: `earliest` = log start, `latest` = high watermark, `stable` = last stable offset.

        Raises:
            NoLeader: A partition has no leader.
            ClusterUnreachable: No answer in time.
            Refused: The principal may not describe one of the topics.
        """
        spec, isolation = _SPECS[which]
        return _offsets(self._list_all(dict.fromkeys(partitions, spec), isolation))

    def led_offsets(self, partitions: Iterable[TopicPartition], which: Which, patience: float = 0) -> LedOffsets:
        """The answers of `offsets` for the partitions that have a leader, even if none has one.

        Args:
            partitions: Existing partitions.
            which: The kind of offset, see `offsets`.
            patience: Seconds to wait for leaders once a broker has answered; 0 to ask once. `ELECTION_SECONDS` is long
                enough for an election.

        Raises:
            ClusterUnreachable: No broker answers in time.
            Refused: The principal may not describe one of the topics.
        """
        spec, isolation = _SPECS[which]
        found, offline = self._list(dict.fromkeys(partitions, spec), isolation, all_needed=False, patience=patience)
        return LedOffsets(_offsets(found), offline)

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader epoch at the end of each partition; partitions that do not exist, or have none, are left out."""
        ends = self._list_all(dict.fromkeys(partitions, _SPECS["latest"][0]))
        return _epochs(ends)

    def led_ends(self, partitions: Iterable[TopicPartition]) -> tuple[LedOffsets, dict[TopicPartition, int]]:
        """The answers of `led_offsets` of the high watermarks, and the leader epoch at each; arguments as there."""
        spec, isolation = _SPECS["latest"]
        found, offline = self._list(dict.fromkeys(partitions, spec), isolation, all_needed=False, patience=0)
        return LedOffsets(_offsets(found), offline), _epochs(found)

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int | None:
        """The first offset whose record is not older than a time; the last stable offset if there is no such record.

        Args:
            partition: The partition; if it does not exist, the answer is None.
            timestamp: Milliseconds since the epoch, UTC.
        """
        return self.offsets_at([partition], timestamp).get(partition)

    def offsets_at(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """As `offset_at`, of several partitions; those that do not exist are left out.

        Args:
            partitions: Existing partitions.
            timestamp: Milliseconds since the epoch, UTC.
        """
        # The ends first: asked for after the time, they would pass over a record that was written in between.
        ends = self.offsets(partitions, "stable")
        found = _offsets(self._list_all(dict.fromkeys(ends, OffsetSpec.for_timestamp(timestamp))))
        return _from_time(found, ends)

    def led_offsets_at(self, partitions: Iterable[TopicPartition], timestamp: int, patience: float = 0) -> LedOffsets:
        """The answers of `offsets_at` for the partitions that have a leader, even if none has one.

        Args:
            partitions: Existing partitions.
            timestamp: Milliseconds since the epoch, UTC.
            patience: As for `led_offsets`, for each of the two questions that it takes.
        """
        spec = OffsetSpec.for_timestamp(timestamp)
        ends, offline = self.led_offsets(partitions, "stable", patience)  # first, as in `offsets_at`
        answered, more = self._list(dict.fromkeys(ends, spec), all_needed=False, patience=patience)
        return LedOffsets(_from_time(_offsets(answered), ends), offline | more)

    def _list_all(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, ListOffsetsResultInfo]:
        return self._list(wanted, isolation, all_needed=True, patience=self.timeout).found

    def _list(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        *,
        all_needed: bool,
        patience: float,
    ) -> SettledAnswers[ListOffsetsResultInfo]:
        """Offsets of those partitions that exist; see `ask_until_settled`."""
        if not wanted:
            return SettledAnswers({}, {})

        def ask(partitions: Collection[TopicPartition]) -> ClusterAnswers[ListOffsetsResultInfo | _Absent]:
            specs = {KafkaTopicPartition(*tp): wanted[tp] for tp in partitions}
            asked = self.admin.list_offsets(specs, isolation_level=isolation, request_timeout=self.timeout)
            places = {TopicPartition(t.topic, t.partition): future for t, future in asked.items()}
            return self._looked_up(ClusterAnswers.of({tp: partial(self._await_offset, f) for tp, f in places.items()}))

        if not self._knows_leaders:
            # A new client that has to find the leaders itself does so only one to three seconds later.
            self._metadata()
        try:
            found, offline = ask_until_settled(self, wanted, ask, all_needed, patience)
        except Unanswered:
            why = self._last_error or "offsets were asked for, no answer in time"
            raise clients.unreachable(self.role, self._properties, why) from None
        return SettledAnswers({tp: end for tp, end in found.items() if not isinstance(end, str)}, offline)

    def _looked_up(
        self, answers: ClusterAnswers[ListOffsetsResultInfo | _Absent]
    ) -> ClusterAnswers[ListOffsetsResultInfo | _Absent]:
        """The same answers, where what the client did not know either does not exist or has failed for now."""
        unknown = [tp for tp, found in answers.found.items() if found == "not known to the client"]
        if not unknown:
            return answers
        counts = self.topics()  # the client knows them from now on
        added = {tp for tp in unknown if tp.partition < counts.get(tp.topic, 0)}
        return ClusterAnswers(
            {tp: found for tp, found in answers.found.items() if tp not in added}
            | dict.fromkeys(set(unknown) - added, "does not exist"),
            answers.failed | dict.fromkeys(added, "the client does not know the partition yet"),
            answers.is_offline or bool(added),
        )

    def _await_offset(self, future: Future[Any]) -> ListOffsetsResultInfo | _Absent:
        """Waits for one offset; it is negative if the partition has no such offset.

        The client does not know a partition that does not exist, or that was added since the client looked.
        """
        found: ListOffsetsResultInfo | _Absent = self.answer(
            future,
            {
                KafkaError.UNKNOWN_TOPIC_OR_PART: "does not exist",
                KafkaError._UNKNOWN_PARTITION: "not known to the client",
            },
        )
        if not isinstance(found, str) and found.offset == OFFSET_INVALID:
            # librdkafka 2.16 reports no error for a failed request: it returns its initial value.
            raise Unanswered
        return found


def _offsets(answers: Mapping[TopicPartition, ListOffsetsResultInfo]) -> dict[TopicPartition, int]:
    return {tp: int(found.offset) for tp, found in answers.items()}


def _epochs(answers: Mapping[TopicPartition, ListOffsetsResultInfo]) -> dict[TopicPartition, int]:
    epochs = {tp: found.leader_epoch for tp, found in answers.items()}
    return {tp: epoch for tp, epoch in epochs.items() if epoch is not None and epoch >= 0}


def _from_time(found: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offsets that were found for a time, which are negative where no record is as young: there the ends count."""
    return {tp: ends[tp] if offset < 0 else offset for tp, offset in found.items()}
