"""Requests and answers of transactions are those of Kafka's own schemas, as `kio` generates them."""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.errors import ProtocolError
from k2k_assets.transport.record_batch.wire import control_messages, produce_messages
from k2k_assets.transport.record_batch.wire import transaction_messages as messages
from k2k_assets.transport.record_batch.wire.produce_messages import LeaderInstead, ProducedPartition, WrittenBatch
from k2k_assets.transport.record_batch.wire.transaction_messages import FoundCoordinator
from k2k_assets_tests.support.brokers.kio_messages import packed as as_sent
from k2k_assets_tests.support.brokers.kio_messages import schema_of
from k2k_assets_tests.support.suite.properties import examples

VERSIONS = range(produce_messages.OLDEST, produce_messages.NEWEST + 1)
ID = uuid.UUID("4c13bbad-ec04-4401-a9ce-a2a2a2cb09b5")
ME = ProducerIdentity(2**40, 7)
NOW = timedelta(0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("large", [10, 200, 70_000])
def test_produce_asks_as_the_schema_says_and_copies_no_records(version: int, large: int) -> None:
    schema = schema_of("produce", version, "request")
    other = uuid.UUID(int=5)
    payload = memoryview(bytes(large))
    batches: dict[str, list[WrittenBatch]] = {
        "orders": [(3, b"head" * 15, payload), (0, b"last" * 15, memoryview(b""))],
        "other": [(300, b"HEAD" * 15, b"xyz")],
    }
    ids = {"orders": ID.bytes, "other": other.bytes}
    named_batches = {(ids[topic] if version >= 13 else topic): of_topic for topic, of_topic in batches.items()}

    def topic(name: str, topic_id: uuid.UUID) -> Any:
        partitions = tuple(
            schema.PartitionProduceData(index=index, records=header + bytes(records))
            for index, header, records in batches[name]
        )
        named = {"topic_id": topic_id} if version >= 13 else {"name": name}
        return schema.TopicProduceData(partition_data=partitions, **named)

    asked = schema.ProduceRequest(
        transactional_id="me", acks=-1, timeout=timedelta(seconds=30),
        topic_data=(topic("orders", ID), topic("other", other)),
    )  # fmt: skip
    pieces, size = produce_messages.produce("me", 30.0, named_batches)
    assert b"".join(pieces) == as_sent(asked)
    assert all(map(len, pieces))
    assert size == sum(map(len, pieces))
    assert any(piece is payload for piece in pieces)


def _produce_answer(version: int) -> bytes:
    schema = schema_of("produce", version, "response")
    wrong = (schema.BatchIndexAndErrorMessage(batch_index=4, batch_index_error_message="no key"),)
    tagged = {"current_leader": schema.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)} if version >= 10 else {}
    partitions = (
        schema.PartitionProduceResponse(
            index=3, error_code=ErrorCode.none, base_offset=77, log_append_time=None, record_errors=()
        ),
        schema.PartitionProduceResponse(
            index=0, error_code=ErrorCode.invalid_record, base_offset=-1, log_append_time=None, record_errors=wrong,
            error_message="one of them", **tagged,
        ),
    )  # fmt: skip
    named = {"topic_id": ID} if version >= 13 else {"name": "orders"}
    endpoints = {"node_endpoints": (schema.NodeEndpoint(node_id=2, host="b", port=9),)} if version >= 10 else {}
    topic = schema.TopicProduceResponse(partition_responses=partitions, **named)
    return as_sent(schema.ProduceResponse(responses=(topic,), throttle_time=timedelta(seconds=2), **endpoints))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_to_produce_is_read(version: int) -> None:
    found = produce_messages.read_produce(version, memoryview(_produce_answer(version)))
    topic = ID.bytes if version >= 13 else "orders"
    instead = LeaderInstead(2, 9) if version >= 10 else None
    assert found.throttled == 2.0
    assert found.has_errors
    assert found.partitions == [
        ProducedPartition(topic, 3, 0, 77),
        ProducedPartition(topic, 0, 87, -1, ((4, "no key"),), "one of them", instead),
    ]


@examples(200)
@given(st.integers(1, 130), st.data())
def test_the_usual_answer_to_produce_is_read_at_once_and_alike(count: int, data: st.DataObject) -> None:
    """All batches are of one topic, and were appended. What differs in any byte is read as all others are."""
    schema = schema_of("produce", 13, "response")
    partitions = tuple(
        schema.PartitionProduceResponse(
            index=n, error_code=ErrorCode.none, base_offset=7 * n, log_append_time=None, record_errors=()
        )
        for n in range(count)
    )
    topic = schema.TopicProduceResponse(partition_responses=partitions, topic_id=ID)
    sent = as_sent(schema.ProduceResponse(responses=(topic,), throttle_time=timedelta(seconds=2)))
    right = produce_messages.read_produce(13, memoryview(sent))
    assert right == (2.0, [ProducedPartition(ID.bytes, n, 0, 7 * n) for n in range(count)], False)
    at, bits = data.draw(st.integers(0, len(sent) - 1)), data.draw(st.integers(0, 255))
    changed = bytearray(sent)
    changed[at] ^= bits
    answer = memoryview(bytes(changed[: data.draw(st.integers(0, len(sent)))] if data.draw(st.booleans()) else changed))
    at_once = produce_messages._all_appended(answer)
    assert at_once is None or at_once == produce_messages._with_any_outcome(13, answer)


def test_find_coordinator() -> None:
    asks, schema = schema_of("find_coordinator", 4, "request"), schema_of("find_coordinator", 4, "response")
    asked = asks.FindCoordinatorRequest(key_type=1, coordinator_keys=("me",))
    assert messages.find_coordinator("me") == as_sent(asked)
    found = schema.Coordinator(
        key="me", node_id=3, host="h", port=9092, error_code=ErrorCode.coordinator_not_available, error_message="wait"
    )
    packed = as_sent(schema.FindCoordinatorResponse(throttle_time=NOW, coordinators=(found,)))
    assert messages.read_find_coordinator(memoryview(packed)) == FoundCoordinator(15, "wait", 3, ("h", 9092))


@pytest.mark.parametrize("version", [4, 5])
def test_init_producer_id(version: int) -> None:
    asks, schema = (schema_of("init_producer_id", version, kind) for kind in ("request", "response"))
    asked = asks.InitProducerIdRequest(
        transactional_id="me", transaction_timeout=timedelta(seconds=15), producer_id=-1, producer_epoch=-1
    )
    assert messages.init_producer_id("me", 15_000) == as_sent(asked)
    packed = as_sent(
        schema.InitProducerIdResponse(
            throttle_time=NOW, error_code=ErrorCode.none, producer_id=ME.producer_id, producer_epoch=ME.epoch
        )
    )
    assert messages.read_init_producer_id(memoryview(packed)) == (0, ME)


def test_add_partitions() -> None:
    asks, schema = (schema_of("add_partitions_to_txn", 3, kind) for kind in ("request", "response"))
    wanted = [TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("a", 7)]
    asked = asks.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="me", v3_and_below_producer_id=ME.producer_id,
        v3_and_below_producer_epoch=ME.epoch,
        v3_and_below_topics=(
            asks.AddPartitionsToTxnTopic(name="a", partitions=(1, 7)),
            asks.AddPartitionsToTxnTopic(name="b", partitions=(0,)),
        ),
    )  # fmt: skip
    assert messages.add_partitions("me", ME, wanted) == as_sent(asked)

    def result(index: int, error: ErrorCode) -> Any:
        return schema.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)

    results = (result(1, ErrorCode.none), result(7, ErrorCode.concurrent_transactions))
    topic = schema.AddPartitionsToTxnTopicResult(name="a", results_by_partition=results)
    packed = as_sent(schema.AddPartitionsToTxnResponse(throttle_time=NOW, results_by_topic_v3_and_below=(topic,)))
    assert messages.read_add_partitions(memoryview(packed)) == {TopicPartition("a", 1): 0, TopicPartition("a", 7): 51}


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("commits", [True, False])
def test_end_txn(version: int, commits: bool) -> None:
    asks, schema = (schema_of("end_txn", version, kind) for kind in ("request", "response"))
    asked = asks.EndTxnRequest(
        transactional_id="me", producer_id=ME.producer_id, producer_epoch=ME.epoch, committed=commits
    )
    assert messages.end_txn("me", ME, commits) == as_sent(asked)
    told = {"producer_id": ME.producer_id, "producer_epoch": 8} if version >= 5 else {}
    packed = as_sent(schema.EndTxnResponse(throttle_time=NOW, error_code=ErrorCode.none, **told))
    expected = ProducerIdentity(ME.producer_id, 8) if version >= 5 else None
    assert messages.read_end_txn(version, memoryview(packed)) == (0, expected)


@pytest.mark.parametrize("level", [None, 1, 2])
def test_the_version_of_transactions_is_read(level: int | None) -> None:
    schema = schema_of("api_versions", 3, "response")
    features = [schema.FinalizedFeatureKey(name="metadata.version", max_version_level=27, min_version_level=1)]
    if level is not None:
        features.append(
            schema.FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=0)
        )
    packed = as_sent(
        schema.ApiVersionsResponse(
            error_code=ErrorCode.none, api_keys=(), throttle_time=NOW, finalized_features_epoch=3,
            finalized_features=tuple(features),
        )
    )  # fmt: skip
    assert control_messages.read_api_versions(memoryview(packed)).of_transactions == (level or 0)


@given(data=st.data(), version=st.sampled_from([9, 13]))
@examples(100)
def test_a_damaged_answer_to_produce_is_one_or_a_protocol_error(data: st.DataObject, version: int) -> None:
    content = bytearray(_produce_answer(version))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        produce_messages.read_produce(version, memoryview(content)[: data.draw(st.integers(0, len(content)))])
