"""What a task proves of a stretch: it goes on behind a doubt, and says nothing of what it has not seen to the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.interface import Polled, Position
from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.columns import ArrivedBatch, BatchRecords
from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.verification.content.by_batches.proven_parts import FIRST_DOUBT, CopiedStretch, ProvenPart, Prover
from k2k_assets.verification.content.by_batches.reading import TimeIsUp, reasons_against
from k2k_assets_tests.verification.content.by_batches.copies import Written, batches, mapped

TP = TopicPartition("orders", 0)
IDS = {"source": "c291/xJjZS1vZi1hbGw+AA", "target": "dGFyZ2V0LW9mLWFsbC0tAA"}
# As librdkafka writes the first one.
COUNT = 9000
RECORDS = [Written(n, b"k", b"v%d" % n) for n in range(COUNT)]


class Cluster:
    """One partition, in place of a cluster: batches from a position on, then an end."""

    def __init__(self, side: str, content: Sequence[RecordBatch], end: int = COUNT, fault: Exception | None = None):
        self.id = IDS[side].replace("/", "_").replace("+", "-")
        self._content, self._end, self._fault = content, end, fault
        self._left: list[RecordBatch] = []
        self.is_closed = False

    def assign(self, positions: Mapping[TopicPartition, Position]) -> None:
        if self._fault:
            raise self._fault
        self._left = [batch for batch in self._content if batch.end > positions[TP].offset]

    def poll(self, limit: int, timeout: float) -> Polled:
        some, self._left = self._left[:3], self._left[3:]
        if not some:
            return Polled(ends={TP: self._end})
        arrived = [ArrivedBatch(batch, range(batch.base, batch.end)) for batch in some]
        return Polled([Chunk(TP, BatchRecords(TP, arrived))])

    def topic_id(self, tp: TopicPartition) -> str:
        return self.id

    def close(self) -> None:
        self.is_closed = True


def _parts(source: Cluster, target: Cluster, seconds: float = 60, stretches: int = 1) -> list[ProvenPart]:
    clusters = iter([source, target])
    prover = Prover({}, {}, time.monotonic() + seconds, lambda _: next(clusters))
    runs = mapped([(0, 0, COUNT)])
    stretch = CopiedStretch(TP, IDS["source"], 0, COUNT, TP, IDS["target"], runs)
    found = [part for _ in range(stretches) for part in prover.parts(stretch)]
    prover.close()
    return found


def _good(side: str) -> Cluster:
    return Cluster(side, batches(RECORDS, (200,)))


def test_a_stretch_that_is_the_same_is_one_part() -> None:
    source, target = _good("source"), Cluster("target", batches(RECORDS, (170,), (1,)))
    (part,) = _parts(source, target)
    assert part[:10] == (*TP, 0, COUNT, 0, COUNT - 1, COUNT, 0, part.bytes_, part.milliseconds)
    assert part.doubt == ""
    assert source.is_closed
    assert target.is_closed


def test_it_goes_on_behind_a_doubt_each_time_further_away() -> None:
    wrong = [each._replace(value=b"wrong") if each.offset in (100, 5000) else each for each in RECORDS]
    parts = _parts(_good("source"), Cluster("target", batches(wrong, (170,))))
    assert [(p.start, p.end, p.first, p.last, p.doubt_end) for p in parts] == [
        (0, 100, 0, 99, 100 + FIRST_DOUBT),
        (1100, 5000, 1100, 4999, 5000 + 2 * FIRST_DOUBT),
        (7000, COUNT, 7000, COUNT - 1, COUNT),
    ]
    assert [part.doubt for part in parts] == ["records differ", "records differ", ""]


def test_of_nothing_but_doubts_little_is_read() -> None:
    wrong = [each._replace(timestamp=each.timestamp + 1) for each in RECORDS]
    parts = _parts(_good("source"), Cluster("target", batches(wrong, (200,))))
    assert [(part.records, part.doubt_end) for part in parts] == [(0, 1000), (0, 3000), (0, 7000), (0, COUNT)]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_that_was_created_anew_proves_nothing(side: str) -> None:
    clusters = {name: _good(name) for name in IDS}
    clusters[side].id = "another"
    parts = _parts(clusters["source"], clusters["target"])
    assert {(part.records, part.doubt) for part in parts} == {(0, "the topic was created anew")}


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_partition_that_ends_earlier_than_it_did_is_not_proven_to_the_end(side: str) -> None:
    """As a leader does that has not heard of the newest high watermark: what lies behind may hold anything."""
    clusters = {name: _good(name) for name in IDS}
    clusters[side] = Cluster(side, batches(RECORDS[:8600], (200,)), end=8600)
    parts = _parts(clusters["source"], clusters["target"])
    assert parts[0].end < COUNT
    assert all(part.end <= 8600 for part in parts)
    assert "ends earlier" in parts[0].doubt


@pytest.mark.parametrize("fault", [NotByBatches(["Fetch is too old"]), ClusterUnreachable("no broker answers")])
def test_a_cluster_that_cannot_be_read_by_batches_is_not_asked_again(fault: Exception) -> None:
    parts = _parts(_good("source"), Cluster("target", [], fault=fault), stretches=3)
    assert [(part.records, part.doubt) for part in parts] == [(0, str(fault))]


class Slow(Cluster):
    """Sends its first batches, and then takes longer than there is time."""

    def poll(self, limit: int, timeout: float) -> Polled:
        if len(self._left) < len(self._content):
            raise TimeIsUp
        return super().poll(limit, timeout)


def test_what_was_proven_until_time_was_up_is_proven_and_the_rest_is_no_doubt() -> None:
    (part,) = _parts(_good("source"), Slow("target", batches(RECORDS, (200,))))
    assert (part.start, part.end, part.records, part.doubt, part.doubt_end) == (0, 600, 600, "", 600)


def test_settings_that_cannot_be_read_with_by_batches_are_told_before() -> None:
    assert reasons_against({"bootstrap.servers": "one:9092", "isolation.level": "read_uncommitted"}) == ()
    assert reasons_against({"bootstrap.servers": "one:9092", "client.rack": "r1"}) == (
        "the property client.rack is not understood by it",
    )


def test_when_time_is_up_nothing_more_is_proven() -> None:
    assert _parts(_good("source"), _good("target"), seconds=0) == []
