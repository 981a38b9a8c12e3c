"""Requests and answers are those of Kafka's own schemas, as `kio` generates them; what is none is a protocol error."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.errors import ProtocolError
from k2k_assets.transport.record_batch.wire import control_messages as messages
from k2k_assets.transport.record_batch.wire import fetch_messages, produce_messages, transaction_messages
from k2k_assets.transport.record_batch.wire.control_messages import (
    LeaderOf,
    SpokenVersions,
    TopicMetadata,
    VersionRange,
)
from k2k_assets.transport.record_batch.wire.fetch_messages import (
    Aborted,
    EpochEnd,
    FetchedPartition,
    FetchLimits,
    FetchPosition,
)
from k2k_assets_tests.support.brokers.kio_messages import packed as as_sent
from k2k_assets_tests.support.brokers.kio_messages import schema_of
from k2k_assets_tests.support.suite.properties import examples

VERSIONS = range(fetch_messages.OLDEST, fetch_messages.NEWEST + 1)
ID = uuid.UUID("4c13bbad-ec04-4401-a9ce-a2a2a2cb09b5")


WANTED = [
    FetchPosition(TopicPartition("orders", 3), ID.bytes, 10, 4, 2),
    FetchPosition(TopicPartition("orders", 0), ID.bytes, 0, -1, -1),
    FetchPosition(TopicPartition("other", 1), uuid.UUID(int=5).bytes, 2**50, 7, 7),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_fetch_asks_as_the_schema_says(version: int) -> None:
    schema = schema_of("fetch", version, "request")

    def topic(name: str, topic_id: uuid.UUID) -> Any:
        partitions = tuple(
            schema.FetchPartition(
                partition=each.tp.partition, current_leader_epoch=each.leader_epoch, fetch_offset=each.offset,
                last_fetched_epoch=each.last_epoch, partition_max_bytes=7,
            )
            for each in WANTED
            if each.tp.topic == name
        )  # fmt: skip
        named = {"topic_id": topic_id} if version >= 13 else {"topic": name}
        return schema.FetchTopic(partitions=partitions, **named)

    asked = schema.FetchRequest(
        max_wait=timedelta(milliseconds=500), min_bytes=1, max_bytes=99, isolation_level=1,
        topics=(topic("orders", ID), topic("other", uuid.UUID(int=5))), forgotten_topics_data=(),
        **({"replica_id": -1} if version < 15 else {}),
    )  # fmt: skip
    assert fetch_messages.fetch(version, WANTED, FetchLimits(500, 1, 99, 7)) == as_sent(asked)


def _fetch_answer(version: int, records: bytes = b"batches", diverging: bool = True) -> bytes:
    schema = schema_of("fetch", version, "response")
    tagged: dict[str, Any] = {"current_leader": schema.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)}
    if diverging:
        tagged["diverging_epoch"] = schema.EpochEndOffset(epoch=3, end_offset=40)
    one = schema.PartitionData(
        partition_index=3, error_code=ErrorCode.none, high_watermark=90, last_stable_offset=80, log_start_offset=1,
        aborted_transactions=(schema.AbortedTransaction(producer_id=5, first_offset=12),), records=records, **tagged,
    )  # fmt: skip
    other = schema.PartitionData(
        partition_index=0, error_code=ErrorCode.offset_out_of_range, high_watermark=-1, aborted_transactions=None,
        records=None,
    )  # fmt: skip
    named = {"topic_id": ID} if version >= 13 else {"topic": "orders"}
    topic = schema.FetchableTopicResponse(partitions=(one, other), **named)
    endpoints = {}
    if version >= 16:
        endpoints = {"node_endpoints": (schema.NodeEndpoint(node_id=2, host="b", port=9),)}
    return as_sent(
        schema.FetchResponse(
            throttle_time=timedelta(seconds=2), error_code=ErrorCode.none, session_id=0, responses=(topic,), **endpoints
        )
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_to_fetch_is_read(version: int) -> None:
    found = fetch_messages.read_fetch(version, memoryview(_fetch_answer(version)))
    topic = ID.bytes if version >= 13 else "orders"
    assert (found.error, found.throttled) == (0, 2.0)
    assert found.partitions == [
        FetchedPartition(topic, 3, 0, 90, 80, [Aborted(5, 12)], EpochEnd(3, 40), memoryview(b"batches")),
        FetchedPartition(topic, 0, 1, -1, -1, [], None, memoryview(b"")),
    ]


def test_without_a_divergence_none_is_read() -> None:
    answer = memoryview(_fetch_answer(16, diverging=False))
    assert fetch_messages.read_fetch(16, answer).partitions[0].diverging is None


def test_metadata() -> None:
    asks, schema = schema_of("metadata", 12, "request"), schema_of("metadata", 12, "response")
    asked = asks.MetadataRequest(
        topics=tuple(asks.MetadataRequestTopic(topic_id=None, name=name) for name in ("orders", "none")),
        allow_auto_topic_creation=False, include_topic_authorized_operations=False,
    )  # fmt: skip
    assert messages.metadata(["orders", "none"]) == as_sent(asked)
    partition = schema.MetadataResponsePartition(
        error_code=ErrorCode.none, partition_index=1, leader_id=7, leader_epoch=3, replica_nodes=(7, 8), isr_nodes=(7,),
        offline_replicas=(8,),
    )  # fmt: skip
    topics = (
        schema.MetadataResponseTopic(
            error_code=ErrorCode.none, name="orders", topic_id=ID, is_internal=False, partitions=(partition,)
        ),
        schema.MetadataResponseTopic(
            error_code=ErrorCode.unknown_topic_or_partition, name="none", topic_id=None, partitions=()
        ),
    )
    brokers = (schema.MetadataResponseBroker(node_id=7, host="host", port=9092, rack="r"),)
    packed = as_sent(
        schema.MetadataResponse(throttle_time=timedelta(0), brokers=brokers, cluster_id="c", topics=topics)
    )
    found = messages.read_metadata(memoryview(packed))
    assert found.brokers == {7: ("host", 9092)}
    assert found.topics == {
        "orders": TopicMetadata(0, ID.bytes, {1: LeaderOf(0, 7, 3)}),
        "none": TopicMetadata(3, None, {}),
    }


def test_versions() -> None:
    asks, schema = schema_of("api_versions", 3, "request"), schema_of("api_versions", 3, "response")
    asked = asks.ApiVersionsRequest(client_software_name="k2k-assets", client_software_version="1")
    assert messages.api_versions() == as_sent(asked)
    keys = (schema.ApiVersion(api_key=1, min_version=4, max_version=18),)
    packed = as_sent(schema.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys, throttle_time=timedelta(0)))
    assert messages.read_api_versions(memoryview(packed)) == SpokenVersions(0, {1: VersionRange(4, 18)})


def test_log_ends() -> None:
    asks, schema = schema_of("list_offsets", 6, "request"), schema_of("list_offsets", 6, "response")
    partition = asks.ListOffsetsPartition(partition_index=3, timestamp=-2)
    topic = asks.ListOffsetsTopic(name="orders", partitions=(partition,))
    asked = asks.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,))
    assert messages.list_offsets(TopicPartition("orders", 3), messages.EARLIEST) == as_sent(asked)
    answered = schema.ListOffsetsPartitionResponse(
        partition_index=3, error_code=ErrorCode.none, timestamp=-1, offset=77
    )
    answer = schema.ListOffsetsTopicResponse(name="orders", partitions=(answered,))
    packed = as_sent(schema.ListOffsetsResponse(throttle_time=timedelta(0), topics=(answer,)))
    assert messages.read_list_offsets(memoryview(packed)) == (0, 77)


def test_login() -> None:
    asks, schema = schema_of("sasl_handshake", 1, "request"), schema_of("sasl_handshake", 1, "response")
    assert messages.sasl_handshake("PLAIN") == as_sent(asks.SaslHandshakeRequest(mechanism="PLAIN"))
    packed = as_sent(schema.SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=("PLAIN", "X")))
    assert messages.read_sasl_handshake(memoryview(packed)) == (0, ["PLAIN", "X"])
    asks, schema = schema_of("sasl_authenticate", 2, "request"), schema_of("sasl_authenticate", 2, "response")
    assert messages.sasl_authenticate(b"step") == as_sent(asks.SaslAuthenticateRequest(auth_bytes=b"step"))
    packed = as_sent(
        schema.SaslAuthenticateResponse(
            error_code=ErrorCode.sasl_authentication_failed, error_message="no", auth_bytes=b"next",
            session_lifetime=timedelta(seconds=90),
        )
    )  # fmt: skip
    found = messages.read_sasl_authenticate(memoryview(packed))
    assert (found.error, found.words, found.token, found.lifetime) == (58, "no", b"next", 90.0)


READERS: Sequence[Callable[[memoryview], object]] = [
    messages.read_api_versions,
    messages.read_metadata,
    messages.read_list_offsets,
    messages.read_sasl_handshake,
    messages.read_sasl_authenticate,
    lambda answer: fetch_messages.read_fetch(12, answer),
    lambda answer: fetch_messages.read_fetch(16, answer),
    transaction_messages.read_find_coordinator,
    transaction_messages.read_init_producer_id,
    transaction_messages.read_add_partitions,
    lambda answer: transaction_messages.read_end_txn(5, answer),
    lambda answer: produce_messages.read_produce(9, answer),
    lambda answer: produce_messages.read_produce(13, answer),
]


@given(content=st.binary(max_size=200), reader=st.sampled_from(READERS))
@examples(100)
def test_any_bytes_are_an_answer_or_a_protocol_error(content: bytes, reader: Callable[[memoryview], object]) -> None:
    with suppress(ProtocolError):
        reader(memoryview(content))


@given(data=st.data(), version=st.sampled_from([12, 16]))
@examples(100)
def test_a_damaged_answer_to_fetch_is_one_or_a_protocol_error(data: st.DataObject, version: int) -> None:
    content = bytearray(_fetch_answer(version))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    left = memoryview(content)[: data.draw(st.integers(0, len(content)))]
    try:
        found = fetch_messages.read_fetch(version, left)
    except ProtocolError:
        return
    assert sum(len(each.records) for each in found.partitions) <= len(content)


def test_a_claim_of_many_items_is_refused_before_any_is_read() -> None:
    started = time.process_time()
    for claim in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f"):
        answer = bytes(4) + claim + bytes(1000)
        with pytest.raises(ProtocolError, match="claims an array"):
            messages.read_metadata(memoryview(answer))
    assert time.process_time() - started < 1
