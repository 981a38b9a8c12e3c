"""A record that the target refuses is told by its place and its size, however it was packed."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets.transport.record_batch.wire.produce_messages import ProducedPartition
from k2k_assets.transport.record_batch.writing.pending_chunk import PendingChunk
from k2k_assets.transport.record_batch.writing.refusals import refusal_of
from k2k_assets_tests.support.memory.fake_records import ListRecords

INVALID_RECORD = 87
RECORDS = [(b"key", b"v" * 5000, ((b"name", b"value"),), 1), (None, b"", (), 1), (b"k", None, (), 2)]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize(("index", "size"), [(0, 5003), (1, 0), (2, 1)])
def test_the_size_is_that_of_key_and_value(codec: int, index: int, size: int) -> None:
    sent = Sent(Chunk(TopicPartition("from", 0), ListRecords([100, 101, 102, 103]), "to", 0))
    (queued,) = PendingChunk(sent).queued(0, range(1, 4), [packed(RECORDS, codec)])
    assert queued.part is not None
    answer = ProducedPartition("to", 0, INVALID_RECORD, -1, ((index, "not this one"),))
    found = refusal_of(queued, queued.part, answer)
    assert (found.index, found.size, found.final) == (index + 1, size, True)
    assert found.why.startswith("not this one")
