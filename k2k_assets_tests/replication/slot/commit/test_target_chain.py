"""The chain of chunks on the target: records in a break are read back, and only foreign records count."""

from __future__ import annotations

import logging

import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reason import render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.commit.target_chain import ForeignWriter, TargetChain
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.interface import Delivery
from k2k_assets_tests.support.memory.fake_records import ListRecords
from k2k_assets_tests.support.memory.plans import states

SOURCE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
Asked = list[tuple[TopicPartition, int, int, bool]]


def chain(asked: Asked, found: int = 0, fail: bool = True, markers: int = 1) -> TargetChain:
    """A chain whose gaps hold `found` records; what it reads back goes to `asked`."""

    def read_back(target: TopicPartition, start: int, end: int, before: bool) -> int:
        asked.append((target, start, end, before))
        return found

    # Where the target was truncated, one aborted record lies before what was sent.
    return TargetChain(fail, markers, read_back, lambda ends: {tp: end - 1 for tp, end in ends.items()})


def stretch(first: int, count: int, last: int | None = None, source: TopicPartition = SOURCE) -> Delivery:
    chunk = Chunk(source, ListRecords(list(range(count))), "t", source.partition)
    return Delivery(Sent(chunk), source.partition, first, first + count - 1 if last is None else last)


def each(*offsets: int) -> Delivery:
    chunk = Chunk(SOURCE, ListRecords(list(range(len(offsets)))), "t", 0)
    return Delivery(Sent(chunk), each=[(0, offset) for offset in offsets])


def test_chunks_one_behind_the_other_are_never_read_back() -> None:
    asked: Asked = []
    own = chain(asked)
    own.start(states({SOURCE: (0, 10), OTHER: (0, None)}))
    own.follow([stretch(11, 5), stretch(70, 1, source=OTHER), stretch(16, 2)])
    own.follow([])
    own.follow([stretch(19, 3), stretch(72, 2, source=OTHER)])
    own.follow([each(23, 24, 25)])
    assert asked == []


def test_a_gap_without_records_is_markers_or_an_abort() -> None:
    asked: Asked = []
    own = chain(asked, found=0)
    own.start(states({SOURCE: (0, 10)}))
    own.follow([stretch(15, 5), stretch(22, 2)])
    own.follow([stretch(30, 1)])
    assert asked == [
        # Before our transaction only committed records count; one of them may lie before our former marker.
        (SOURCE, 10, 15, True),
        (SOURCE, 20, 22, False),  # inside it, where no committed reader looks yet
        (SOURCE, 24, 30, True),
    ]


def test_foreign_records_between_transactions_and_inside_one_stop_the_partition() -> None:
    for deliveries in ([stretch(15, 5)], [stretch(11, 2), stretch(15, 5)], [each(11, 12, 15)]):
        own = chain([], found=2)
        own.start(states({SOURCE: (0, 10)}))
        with pytest.raises(
            ForeignWriter, match=r"2 records at t-0 offsets .* were not written by this pipeline"
        ) as stop:
            own.follow(deliveries)
        assert stop.value.source == SOURCE
        assert "errorHandling.onForeignWriter: ignore" in render(stop.value.reason)


def test_outside_transactions_a_former_owner_may_come_late(caplog: pytest.LogCaptureFixture) -> None:
    own = chain([], found=2, markers=0)
    doubtful = states({SOURCE: (0, 10), OTHER: (0, 10)})
    doubtful[SOURCE].unreleased = True
    own.start(doubtful)
    own.follow([stretch(20, 5), stretch(10, 15, source=OTHER)])
    with caplog.at_level(logging.WARNING):
        own.follow([stretch(27, 5)])
    assert "2 records at t-0 offsets 25 to 26 were not written by this pipeline, or late by a former" in caplog.text
    with pytest.raises(ForeignWriter):
        own.follow([stretch(27, 5, source=OTHER)])


def test_outside_transactions_what_came_since_the_release_is_named(caplog: pytest.LogCaptureFixture) -> None:
    asked: Asked = []
    own = chain(asked, found=2, markers=0)
    own.start(states({SOURCE: (0, 10), OTHER: (0, None)}))
    with caplog.at_level(logging.WARNING):
        own.follow([stretch(12, 5), stretch(12, 5, source=OTHER)])
    assert asked == [(SOURCE, 10, 12, True)]
    assert "2 records at t-0 offsets 10 to 11 were not written by this pipeline, or late by a former" in caplog.text
    with pytest.raises(ForeignWriter):
        own.follow([stretch(19, 5)])


def test_outside_transactions_a_target_that_went_back_between_two_sessions_was_truncated() -> None:
    own = chain([], markers=0)
    own.start(states({SOURCE: (0, 10)}))
    with pytest.raises(ForeignWriter, match="went back from offset 10 to 4"):
        own.follow([stretch(4, 1)])
    own.start(states({SOURCE: (0, 10)}))
    own.follow([stretch(10, 1)])
    own.follow([stretch(11, 1)])


def test_ignoring_goes_on_from_behind_the_foreign_records(caplog: pytest.LogCaptureFixture) -> None:
    asked: Asked = []
    own = chain(asked, found=2, fail=False)
    own.start(states({SOURCE: (0, 10)}))
    with caplog.at_level(logging.WARNING, "k2k.replication"):
        own.follow([stretch(13, 5)])
        own.follow([stretch(19, 1)])
    assert asked == [(SOURCE, 10, 13, True)]
    assert "t-0: 2 records at t-0 offsets 10 to 12" in caplog.text


def test_a_target_that_went_back_was_truncated() -> None:
    own = chain([])
    own.start(states({SOURCE: (0, 10)}))
    with pytest.raises(ForeignWriter, match=r"t-0 went back from offset 11 to 3: it was truncated"):
        own.follow([stretch(4, 1)])


def test_a_stop_is_not_lost_where_the_cut_cannot_be_read() -> None:
    def away(_: object) -> dict[TopicPartition, int]:
        raise ClusterUnreachable("the target does not answer")

    own = TargetChain(fail=True, markers=1, read_back=lambda *_: 0, ends_of_committed=away)
    own.start(states({SOURCE: (0, 10)}))
    with pytest.raises(ForeignWriter, match=r"t-0 went back from offset 11 to 4: it was truncated"):
        own.follow([stretch(4, 1)])


def test_outside_transactions_there_are_no_markers() -> None:
    asked: Asked = []
    own = chain(asked, found=3, markers=0)
    own.start(states({SOURCE: (0, 13)}))
    own.follow([stretch(13, 2)])
    own.follow([stretch(15, 2)])
    assert asked == []
    with pytest.raises(ForeignWriter):
        own.follow([stretch(18, 2)])


@pytest.mark.parametrize("known_as", ["target_began", "target_accepted"])
def test_behind_an_adopted_copy_and_accepted_records_there_is_no_marker_of_ours(known_as: str) -> None:
    """One record of others, right behind what was adopted or accepted, lies where our marker would."""
    asked: Asked = []

    def adopted(found: int) -> TargetChain:
        own = chain(asked, found)
        known = states({SOURCE: (0, 10)})
        setattr(known[SOURCE], known_as, 10)
        own.start(known)
        return own

    own = adopted(0)
    own.follow([stretch(10, 5)])
    own.follow([stretch(16, 2)])
    assert asked == []
    with pytest.raises(ForeignWriter, match="10"):
        adopted(1).follow([stretch(11, 5)])
    own = adopted(0)
    own.follow([stretch(12, 5)])
    assert asked == [(SOURCE, 10, 11, True), (SOURCE, 10, 12, True)], (
        "the last record of the adopted copy is none of ours"
    )
