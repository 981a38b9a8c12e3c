"""Each request of an at-least-once sink, cut off on its way there and on its way back: nothing is lost or late."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.writing.at_least_once_sink import AtLeastOnceBatchSink
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, read_all, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble
from k2k_assets_tests.support.memory.fake_records import ListRecords

pytestmark = pytest.mark.integration

COMMITS, RECORDS, ATTEMPTS = 4, 5, 4
STEP_SECONDS, SHORT_STEP_SECONDS = 30.0, 3.0
SOURCE = TopicPartition("from", 0)
ONCE = (Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID)
"""A session asks these once or twice."""


class Copy:
    """Writes numbered records, and commits how many there are with the epoch; after any doubt it reads both."""

    def __init__(self, clusters: KafkaSandbox, proxy: Proxy, step_seconds: float) -> None:
        self.servers = clusters.target_servers
        self.records = create_topic(self.servers, unique("to"))
        self.positions = create_topic(self.servers, unique("positions"))
        self.sessions = 0
        self._id, self._step_seconds = unique("id"), step_seconds
        self._settings = sink_settings_of({"bootstrap.servers": proxy.servers}, step_seconds)

    def run(self) -> None:
        for _ in range(ATTEMPTS):
            self.sessions += 1
            sink = AtLeastOnceBatchSink(self._settings, self._id, SlotTactics(True, 1_000_000), self._step_seconds)
            try:
                with suppress(Restart):
                    sink.open()
                    self._go_on(sink)
                    return
            finally:
                sink.close()
        raise AssertionError("it never came to its end")

    def committed(self) -> tuple[int, ProducerIdentity | None]:
        """The last position and epoch."""
        found = [json.loads(record.value or b"") for record in read_all(self.servers, self.positions)]
        return (found[-1][0], ProducerIdentity(*found[-1][1])) if found else (0, None)

    def await_committed(self, position: int) -> None:
        """The marker of a transaction may come after the answer that it is decided."""
        wait_until(lambda: self.committed()[0] == position, SECONDS, f"position {position} to be visible")

    def written(self) -> list[int]:
        return [int((record.value or b"")[1:]) for record in read_all(self.servers, self.records)]

    def _go_on(self, sink: AtLeastOnceBatchSink) -> None:
        position, former = self.committed()
        identity = sink.raise_epochs({SOURCE: former})[SOURCE]
        self._commit(sink, position, identity)
        now = time.time_ns() // 1_000_000  # brokers delete what is old
        while position < COMMITS * RECORDS:
            for number in range(position, position + RECORDS):
                sink.write(Chunk(SOURCE, ListRecords([number], given_timestamps=[now]), self.records, 0))
            position += RECORDS
            assert sum(delivery.sent.count for delivery in sink.settle()) == RECORDS
            self._commit(sink, position, identity)

    def _commit(self, sink: AtLeastOnceBatchSink, position: int, identity: ProducerIdentity) -> None:
        sink.write_control(self.positions, 0, b"position", json.dumps([position, identity]).encode())
        sink.commit()


def _assert_at_least_once(found: Sequence[int], sessions: int) -> None:
    """Each record, in order; where a session begins again, it begins at a position that was committed."""
    assert set(found) == set(range(COMMITS * RECORDS))
    again = [after for before, after in pairwise(found) if after != before + 1]
    assert len(again) < sessions
    assert all(number % RECORDS == 0 for number in again)
    assert len(found) <= (COMMITS + sessions - 1) * RECORDS


@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize(
    "api", [Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN]
)
def test_a_request_that_is_cut_off_loses_nothing_and_comes_to_nothing_later(
    clusters: KafkaSandbox, api: Api, trouble: Trouble
) -> None:
    step_seconds = SHORT_STEP_SECONDS if trouble is Trouble.DROPPED else STEP_SECONDS
    for occurrence in (1, 2) if api in ONCE else (1, 2, 3, 8):
        with Proxy(clusters.target_servers) as proxy:
            copy = Copy(clusters, proxy, step_seconds)
            fault = proxy.arm(Fault(api, trouble, occurrence, seconds=0.2))
            copy.run()
            if not fault.chosen.is_set():
                assert occurrence > 1, "there was none at all"
                continue
            found = copy.written()
            _assert_at_least_once(found, copy.sessions)
            if trouble is Trouble.LOST:
                proxy.let_through(fault)
                assert copy.written() == found
            copy.await_committed(COMMITS * RECORDS)
