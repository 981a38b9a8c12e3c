"""A chunk on its way to a target topic."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets_tests.support.memory.fake_records import ListRecords

SOURCE = TopicPartition("orders", 3)


@pytest.mark.parametrize(("offsets", "answer"), [([7], True), ([7, 8, 9], True), ([7, 9], False)])
def test_what_is_remembered_of_a_chunk_is_where_it_came_from(offsets: list[int], answer: bool) -> None:
    chunk = Chunk(SOURCE, ListRecords(offsets), "there")
    assert chunk.contiguous is answer

    sent = Sent(chunk)
    assert sent.contiguous is answer
    assert list(sent.offsets) == offsets
    assert (sent.count, sent.first_offset, sent.last_offset) == (len(offsets), offsets[0], offsets[-1])
    assert (sent.source, sent.target_topic) == (SOURCE, "there")
