"""Asks a broker by single requests, packed by `kio`: the model and a real one alike."""

from __future__ import annotations

import socket
import struct
import uuid
from collections.abc import Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, NamedTuple

from kio.serial import entity_reader

from k2k_assets_tests.support.brokers.kafka import SECONDS
from k2k_assets_tests.support.brokers.kafka_frames import Api, read_frame
from k2k_assets_tests.support.brokers.kio_messages import packed, schema_of
from k2k_assets_tests.support.model_broker.coordinator import Partition, Producer
from k2k_assets_tests.support.model_broker.wire import NAMES

_CLIENT = b"asking"
_TIMEOUT = timedelta(seconds=30)
_WITH_TOPIC_IDS = 13
_BY_EPOCH = 5
_LATEST = -1


class Answered(NamedTuple):
    """What matters of an answer: error code, base offset of a batch, who goes on."""

    error: int
    base: int = -1
    producer: Producer = Producer(-1, -1)


class Asking:
    """One connection to a broker that leads and coordinates all, while it is entered.

    Args:
        servers: Its address.
        name: The transactional id.
    """

    def __init__(self, servers: str, name: str) -> None:
        host, port = servers.rsplit(":", 1)
        self._name = name
        self._sock = socket.create_connection((host, int(port)), timeout=SECONDS)
        self._correlation = 0

    def __enter__(self) -> Asking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sock.close()

    def find(self) -> int:
        """Asks for the coordinator, which comes to be by that."""
        schema = schema_of("find_coordinator", 4, "request")
        answer = self.ask(
            Api.FIND_COORDINATOR, 4, schema.FindCoordinatorRequest(key_type=1, coordinator_keys=(self._name,))
        )
        return int(answer.coordinators[0].error_code)

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """The id of a topic."""
        schema = schema_of("metadata", 12, "request")
        wanted = schema.MetadataRequestTopic(topic_id=None, name=topic)
        request = schema.MetadataRequest(
            topics=(wanted,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        found: uuid.UUID | None = self.ask(Api.METADATA, 12, request).topics[0].topic_id
        return found

    def init(self) -> Answered:
        """Asks for a producer id."""
        schema = schema_of("init_producer_id", 5, "request")
        request = schema.InitProducerIdRequest(transactional_id=self._name, transaction_timeout=_TIMEOUT)
        answer = self.ask(Api.INIT_PRODUCER_ID, 5, request)
        return Answered(int(answer.error_code), producer=Producer(answer.producer_id, answer.producer_epoch))

    def join(self, producer: Producer, partitions: Iterable[Partition]) -> Answered:
        """Adds partitions of one topic to the transaction."""
        schema = schema_of("add_partitions_to_txn", 3, "request")
        found = list(partitions)
        topic = schema.AddPartitionsToTxnTopic(name=found[0][0], partitions=tuple(index for _, index in found))
        request = schema.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=(topic,),
        )
        answer = self.ask(Api.ADD_PARTITIONS_TO_TXN, 3, request)
        (of_topic,) = answer.results_by_topic_v3_and_below
        (error,) = {int(each.partition_error_code) for each in of_topic.results_by_partition}
        return Answered(error)

    def produce(self, version: int, partition: Partition, topic_id: uuid.UUID | None, batch: bytes) -> Answered:
        """Writes a batch."""
        schema = schema_of("produce", version, "request")
        topic, index = partition
        named = {"topic_id": topic_id} if version >= _WITH_TOPIC_IDS else {"name": topic}
        data = schema.PartitionProduceData(index=index, records=batch)
        request = schema.ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout=_TIMEOUT,
            topic_data=(schema.TopicProduceData(partition_data=(data,), **named),),
        )
        answer = self.ask(Api.PRODUCE, version, request)
        (found,) = answer.responses[0].partition_responses
        return Answered(int(found.error_code), found.base_offset)

    def end(self, version: int, producer: Producer, commits: bool) -> Answered:
        """Ends the transaction."""
        schema = schema_of("end_txn", version, "request")
        request = schema.EndTxnRequest(
            transactional_id=self._name, producer_id=producer.producer_id, producer_epoch=producer.epoch,
            committed=commits,
        )  # fmt: skip
        answer = self.ask(Api.END_TXN, version, request)
        if version < _BY_EPOCH:
            return Answered(int(answer.error_code))
        return Answered(int(answer.error_code), producer=Producer(answer.producer_id, answer.producer_epoch))

    def send_offset(self, producer: Producer, group: str, partition: Partition, offset: int) -> Answered:
        """Sends a group's offset, without adding the group to the transaction first."""
        schema = schema_of("txn_offset_commit", 3, "request")
        topic, index = partition
        of_partition = schema.TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=""
        )
        request = schema.TxnOffsetCommitRequest(
            transactional_id=self._name, group_id=group,
            producer_id=producer.producer_id, producer_epoch=producer.epoch,
            topics=(schema.TxnOffsetCommitRequestTopic(name=topic, partitions=(of_partition,)),),
        )  # fmt: skip
        (found,) = self.ask(Api.TXN_OFFSET_COMMIT, 3, request).topics[0].partitions
        return Answered(int(found.error_code))

    def end_offset(self, partition: Partition) -> int:
        """Where a partition's log ends."""
        topic, index = partition
        schema = schema_of("list_offsets", 6, "request")
        wanted = schema.ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
        request = schema.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=(schema.ListOffsetsTopic(name=topic, partitions=(wanted,)),),
        )
        (found,) = self.ask(Api.LIST_OFFSETS, 6, request).topics[0].partitions
        assert not found.error_code, found
        return int(found.offset)

    def ask(self, api: Api, version: int, request: Any) -> Any:
        """Asks by a request of `kio`, and returns the answer."""
        self._correlation += 1
        header = struct.pack(">hhih", api, version, self._correlation, len(_CLIENT)) + _CLIENT + b"\0"
        frame = header + packed(request)
        self._sock.sendall(struct.pack(">i", len(frame)) + frame)
        answer = read_frame(self._sock)
        assert answer is not None, "the broker has closed the connection"
        kind = type(request).__name__.replace("Request", "Response")
        schema = schema_of(NAMES[api], version, "response")
        found, _ = entity_reader(getattr(schema, kind))(answer, 4 + 4 + 1)
        return found
