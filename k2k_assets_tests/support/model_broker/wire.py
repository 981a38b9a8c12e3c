"""The requests of a writer and their answers, between bytes and the model; packed by `kio` from Kafka's schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.kio_messages import packed, schema_of
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.coordinator import NOBODY, Producer

NAMES = {
    Api.PRODUCE: "produce",
    Api.METADATA: "metadata",
    Api.LIST_OFFSETS: "list_offsets",
    Api.FIND_COORDINATOR: "find_coordinator",
    Api.API_VERSIONS: "api_versions",
    Api.INIT_PRODUCER_ID: "init_producer_id",
    Api.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    Api.END_TXN: "end_txn",
    Api.TXN_OFFSET_COMMIT: "txn_offset_commit",
    Api.ALTER_CLIENT_QUOTAS: "alter_client_quotas",
}
"""Of the schemas."""
VERSIONS: Mapping[int, tuple[int, int]] = {
    Api.PRODUCE: (0, 13),
    Api.FETCH: (4, 17),
    Api.LIST_OFFSETS: (1, 10),
    Api.METADATA: (0, 13),
    Api.FIND_COORDINATOR: (0, 6),
    Api.API_VERSIONS: (0, 4),
    Api.INIT_PRODUCER_ID: (0, 5),
    Api.ADD_PARTITIONS_TO_TXN: (0, 5),
    Api.END_TXN: (0, 5),
}
"""Those that Kafka 4.3 speaks, as far as they matter here."""
_UNKNOWN_TOPIC = 3
_EACH_ITS_EPOCH = 2
_WITH_TOPIC_IDS = 13
_BY_EPOCH = 5
_NODE = 1
_AT_ONCE = timedelta()


class ModelWire:
    """Answers requests.

    Args:
        cluster: The cluster.
        address: Where it is reached.
        version: Its feature `transaction.version`.
        spoken: Which versions of each API it says it speaks.
    """

    def __init__(
        self,
        cluster: ModelCluster,
        address: tuple[str, int],
        version: int = _EACH_ITS_EPOCH,
        spoken: Mapping[int, tuple[int, int]] = VERSIONS,
    ) -> None:
        self._cluster, self._address, self._version, self._spoken = cluster, address, version, spoken
        self._answers: dict[int, Callable[[int, Any, int], Any]] = {
            Api.PRODUCE: self._produced,
            Api.METADATA: self._metadata,
            Api.FIND_COORDINATOR: self._coordinator,
            Api.API_VERSIONS: self._versions,
            Api.INIT_PRODUCER_ID: self._initialised,
            Api.ADD_PARTITIONS_TO_TXN: self._joined,
            Api.END_TXN: self._ended,
        }

    def answer(self, api: int, version: int, body: bytes, refused: int = 0) -> bytes:
        """Executes a request; the body of the answer.

        Args:
            api: The API.
            version: Its version.
            body: The request behind its header.
            refused: An error code: then it is not executed, and this is the answer.
        """
        schema = schema_of(NAMES[Api(api)], version, "request")
        request, _ = entity_reader(getattr(schema, _class_name(api, "Request")))(body, 0)
        return packed(self._answers[api](version, request, refused))

    def _versions(self, version: int, _request: Any, _refused: int) -> Any:
        schema = schema_of("api_versions", version, "response")
        spoken = tuple(
            schema.ApiVersion(api_key=api, min_version=oldest, max_version=newest)
            for api, (oldest, newest) in self._spoken.items()
        )
        feature = schema.FinalizedFeatureKey(
            name="transaction.version", max_version_level=self._version, min_version_level=self._version
        )
        return schema.ApiVersionsResponse(
            error_code=ErrorCode.none, api_keys=spoken, throttle_time=_AT_ONCE, finalized_features=(feature,)
        )

    def _metadata(self, version: int, request: Any, _refused: int) -> Any:
        schema = schema_of("metadata", version, "response")
        host, port = self._address
        broker = schema.MetadataResponseBroker(node_id=_NODE, host=host, port=port)
        topics = tuple(self._topic(schema, each.name) for each in request.topics or ())
        return schema.MetadataResponse(throttle_time=_AT_ONCE, brokers=(broker,), topics=topics)

    def _topic(self, schema: Any, name: str) -> Any:
        indexes = sorted(index for topic, index in self._cluster.logs if topic == name)
        partitions = tuple(
            schema.MetadataResponsePartition(
                error_code=ErrorCode.none, partition_index=index, leader_id=_NODE, leader_epoch=0
            )
            for index in indexes
        )
        error = ErrorCode.none if indexes else ErrorCode(_UNKNOWN_TOPIC)
        topic_id = self._cluster.ids.get(name)
        return schema.MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=partitions)

    def _coordinator(self, version: int, request: Any, refused: int) -> Any:
        schema = schema_of("find_coordinator", version, "response")
        host, port = self._address
        found = tuple(
            schema.Coordinator(
                key=key, node_id=_NODE, host=host, port=port, error_code=ErrorCode(refused), error_message=None
            )
            for key in request.coordinator_keys
        )
        return schema.FindCoordinatorResponse(throttle_time=_AT_ONCE, coordinators=found)

    def _initialised(self, version: int, request: Any, refused: int) -> Any:
        schema = schema_of("init_producer_id", version, "response")
        refusal = refused, NOBODY
        coordinator, name = self._cluster.coordinator, request.transactional_id
        given = (0, coordinator.give_id()) if name is None and not refused else None
        error, producer = given or (refusal if refused else coordinator.init(name))
        return schema.InitProducerIdResponse(
            throttle_time=_AT_ONCE, error_code=ErrorCode(error), producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
        )  # fmt: skip

    def _joined(self, version: int, request: Any, refused: int) -> Any:
        schema = schema_of("add_partitions_to_txn", version, "response")
        wanted = [(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions]
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        name = request.v3_and_below_transactional_id
        error = refused or self._cluster.coordinator.join(name, producer, wanted)
        topics = tuple(
            schema.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    schema.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=ErrorCode(error)
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
        return schema.AddPartitionsToTxnResponse(throttle_time=_AT_ONCE, results_by_topic_v3_and_below=topics)

    def _ended(self, version: int, request: Any, refused: int) -> Any:
        schema = schema_of("end_txn", version, "response")
        producer = Producer(request.producer_id, request.producer_epoch)
        ends = request.transactional_id, producer, request.committed, version - _BY_EPOCH + _EACH_ITS_EPOCH
        refusal = refused, NOBODY
        error, following = refusal if refused else self._cluster.coordinator.end(*ends)
        told = {"producer_id": following.producer_id, "producer_epoch": following.epoch} if version >= _BY_EPOCH else {}
        return schema.EndTxnResponse(throttle_time=_AT_ONCE, error_code=ErrorCode(error), **told)

    def _produced(self, version: int, request: Any, refused: int) -> Any:
        schema = schema_of("produce", version, "response")
        names = {topic_id: name for name, topic_id in self._cluster.ids.items()}
        topics = []
        for topic in request.topic_data:
            by_id = version >= _WITH_TOPIC_IDS
            name = names.get(topic.topic_id, "") if by_id else topic.name
            partitions = []
            for part in topic.partition_data:
                where = version, request.transactional_id, (name, part.index), part.records
                error, base = (refused, -1) if refused else self._cluster.produce(*where)
                partitions.append(_partition(schema, part.index, error, base))
            named = {"topic_id": topic.topic_id} if by_id else {"name": name}
            topics.append(schema.TopicProduceResponse(partition_responses=tuple(partitions), **named))
        return schema.ProduceResponse(responses=tuple(topics), throttle_time=_AT_ONCE)


def _partition(schema: Any, index: int, error: int, base: int) -> Any:
    return schema.PartitionProduceResponse(
        index=index, error_code=ErrorCode(error), base_offset=base, log_append_time=None, record_errors=()
    )


def _class_name(api: int, kind: str) -> str:
    return "".join(part.capitalize() for part in NAMES[Api(api)].split("_")) + kind
