"""A fault in one session changes the report mode of the next ones, until a while without faults."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import RetryAtOnce, Undeliverable
from k2k_assets.transport.interface import Delivery
from k2k_assets.transport.librdkafka.report_mode import ReportMode
from k2k_assets_tests.support.memory.fake_records import ListRecords

SENT = Sent(Chunk(TopicPartition("t", 0), ListRecords(list(range(5))), "t", 0))


def refusal(index: int | None, final: bool = True) -> Undeliverable:
    return Undeliverable(SENT, index, 0, "too large", final)


def raised(report_mode: ReportMode, refusal: Undeliverable) -> Exception:
    """What comes out of a refusal."""
    with pytest.raises((Undeliverable, RetryAtOnce)) as raised, report_mode.learning_of_refusals():
        raise refusal
    return raised.value


def test_a_chunk_that_does_not_lie_in_one_piece_needs_reports_of_each_record() -> None:
    report_mode = ReportMode(lone_writer=True)
    report_mode.ensure_whole([Delivery(SENT, 0, 11, 15)])
    assert not report_mode.report_each
    with pytest.raises(RetryAtOnce):
        report_mode.ensure_whole([Delivery(SENT, 0, 11, 17)])
    assert report_mode.report_each
    report_mode.ensure_whole([Delivery(SENT, each=[(0, 11), (0, 12), (0, 15), (0, 16), (0, 17)])])


def test_which_record_is_refused_only_a_report_of_each_tells() -> None:
    report_mode = ReportMode(lone_writer=True)
    assert isinstance(raised(report_mode, refusal(None)), RetryAtOnce)
    assert report_mode.report_each
    unknown = refusal(None)
    assert raised(report_mode, unknown) is unknown, "more than that cannot be asked for"
    queued_behind = refusal(3, final=False)
    assert raised(report_mode, queued_behind) is queued_behind
    assert report_mode.report_each
    known = refusal(2)
    assert raised(report_mode, known) is known
    assert not report_mode.report_each, "its topic is stopped, and the others go on as before"


@pytest.mark.parametrize("good", [49, 50])
def test_after_good_transactions_of_one_session_it_goes_on_as_before_the_trouble(good: int) -> None:
    """Reports of each record cost: one that was refused, or a marker inside a chunk, is not paid for until the end."""
    report_mode = ReportMode(lone_writer=True)
    raised(report_mode, refusal(None))
    report_mode.was_mistaken()
    report_mode.committed()
    report_mode.begin_session()
    for _ in range(good):
        report_mode.committed()
    assert (report_mode.report_each, report_mode.foresees) == (good < 50, good == 50)


def test_where_others_write_too_each_record_always_reports_and_nothing_is_foreseen() -> None:
    report_mode = ReportMode(lone_writer=False)
    raised(report_mode, refusal(2))
    for _ in range(100):
        report_mode.committed()
    assert (report_mode.report_each, report_mode.foresees) == (True, False)
