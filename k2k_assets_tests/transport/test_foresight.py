"""Target offsets of chunks are predicted only from earlier chunks, and only with a single writer."""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.foresight import Foresight
from k2k_assets.transport.interface import Delivery
from k2k_assets_tests.support.memory.fake_records import ListRecords

SOURCE, OTHER, UNSEEN = (TopicPartition("t", partition) for partition in range(3))


def sent(count: int, source: TopicPartition = SOURCE) -> Sent:
    return Sent(Chunk(source, ListRecords(list(range(count))), "t", source.partition))


def stretch(first: int, count: int, source: TopicPartition = SOURCE) -> Delivery:
    return Delivery(sent(count, source), source.partition, first, first + count - 1)


def test_what_it_foresees_is_what_a_lone_writer_gets() -> None:
    foresight = Foresight()
    transaction = [stretch(11, 5), stretch(70, 1, source=OTHER), stretch(16, 2)]
    assert foresight.of(d.sent for d in transaction) is None, "no transaction of this session has shown it"
    foresight.learn(transaction)
    following = [stretch(19, 3), stretch(72, 2, source=OTHER), stretch(22, 1)]
    assert foresight.of(d.sent for d in following) == following
    assert foresight.of([sent(3), sent(1, source=UNSEEN)]) is None
    assert foresight.of([]) == []


def test_reports_of_each_record_show_it_too() -> None:
    foresight = Foresight()
    foresight.learn([Delivery(sent(3), each=[(0, 4), (0, 5), (0, 9)])])
    following = stretch(11, 2)
    assert foresight.of([following.sent]) == [following]
