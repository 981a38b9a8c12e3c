"""Each request of a source, cut off on its way there and on its way back: every record is read once, in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.stops.reasons.source_log import OffsetOutOfRange, SourceTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, produce, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble

pytestmark = pytest.mark.integration

BATCHES, RECORDS = 20, 5
FAULTS = [
    pytest.param(partial(Fault, trouble=trouble, by_half=by_half, seconds=0.2), id=trouble.name + by_half * "-by half")
    for trouble, by_half in [
        *((trouble, False) for trouble in Trouble),
        (Trouble.CUT, True),
        (Trouble.LOST, True),
        (Trouble.DROPPED, True),
    ]
]
MakesFault = Callable[..., Fault]


@pytest.fixture(scope="module")
def written(clusters: KafkaSandbox) -> TopicPartition:
    """Numbered records in batches, every other one of which is of an aborted transaction."""
    tp = TopicPartition(create_topic(clusters.source_servers, unique("cut")), 0)
    transactional_id = unique("writer")
    for batch in range(BATCHES):
        values = [b"%d" % number for number in range(batch * RECORDS, batch * RECORDS + RECORDS)]
        produce(clusters.source_servers, tp.topic, values, 0, transactional_id, abort=batch % 2 == 1)
    return tp


def _committed() -> list[bytes]:
    return [b"%d" % number for number in range(BATCHES * RECORDS) if number // RECORDS % 2 == 0]


def _source(proxy: Proxy) -> BatchSource:
    """It asks for little at a time, so that there are many requests."""
    return BatchSource(
        {
            "bootstrap.servers": proxy.servers,
            "socket.timeout.ms": 500,
            "socket.connection.setup.timeout.ms": 1000,
            "fetch.wait.max.ms": 100,
            "fetch.max.bytes": 1000,
            "max.partition.fetch.bytes": 300,
        }
    )


@pytest.mark.parametrize("make_fault", FAULTS)
@pytest.mark.parametrize("api", [Api.API_VERSIONS, Api.METADATA, Api.FETCH])
def test_a_request_that_is_cut_off_costs_and_doubles_nothing(
    clusters: KafkaSandbox, written: TopicPartition, api: Api, make_fault: MakesFault
) -> None:
    for occurrence in (1, 2) if api == Api.API_VERSIONS else (1,) if api == Api.METADATA else (1, 2, 5):
        with Proxy(clusters.source_servers) as proxy:
            fault = proxy.arm(make_fault(api, occurrence=occurrence))
            source = _source(proxy)
            source.assign({written: Position(0)})
            seen: list[bytes | None] = []
            offsets: list[int] = []
            deadline, has_ended = Deadline(SECONDS), False
            while not has_ended:
                polled = source.poll(1000, 0.1)
                for chunk in polled.chunks:
                    seen += chunk.columns().values()
                    offsets += chunk.columns().offsets()
                has_ended = bool(polled.ends)
                assert not deadline.expired(), f"{len(seen)} records, and no end"
            source.close()
            assert fault.chosen.is_set()
            assert seen == _committed()
            assert offsets == sorted(set(offsets))


@pytest.mark.parametrize("make_fault", FAULTS)
def test_a_position_out_of_range_is_told_though_the_question_why_is_cut_off(
    clusters: KafkaSandbox, written: TopicPartition, make_fault: MakesFault
) -> None:
    with Proxy(clusters.source_servers) as proxy:
        fault = proxy.arm(make_fault(Api.LIST_OFFSETS))
        source = _source(proxy)
        source.assign({written: Position(10_000)})
        found: list[SourceStopped] = []
        deadline = Deadline(SECONDS)
        while not found:
            assert not deadline.expired()
            try:
                assert not source.poll(1000, 0.1).chunks
            except SourceStopped as stopped:
                found.append(stopped)
        source.close()
    assert fault.chosen.is_set()
    assert isinstance(found[0].reason, OffsetOutOfRange | SourceTruncated)
