"""What befell one session makes the next ones careful, and is past after a while without trouble."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import RetryAtOnce, Undeliverable
from k2k_assets.transport.interface import Delivery
from k2k_assets.transport.librdkafka.tactics import Tactics
from k2k_assets_tests.support.fake_transport import ListRecords

SENT = Sent(Chunk(TopicPartition("t", 0), ListRecords(list(range(5))), "t", 0))


def refusal(index: int | None, final: bool = True) -> Undeliverable:
    return Undeliverable(SENT, index, 0, "too large", final)


def raised(tactics: Tactics, refusal: Undeliverable) -> Exception:
    """What comes out of a refusal."""
    with pytest.raises((Undeliverable, RetryAtOnce)) as raised, tactics.learning_of_refusals():
        raise refusal
    return raised.value


def test_a_chunk_that_does_not_lie_in_one_piece_needs_reports_of_each_record() -> None:
    tactics = Tactics(lone_writer=True)
    tactics.ensure_whole([Delivery(SENT, 0, 11, 15)])
    assert not tactics.report_each
    with pytest.raises(RetryAtOnce):
        tactics.ensure_whole([Delivery(SENT, 0, 11, 17)])
    assert tactics.report_each
    tactics.ensure_whole([Delivery(SENT, each=[(0, 11), (0, 12), (0, 15), (0, 16), (0, 17)])])


def test_which_record_is_refused_only_a_report_of_each_tells() -> None:
    tactics = Tactics(lone_writer=True)
    assert isinstance(raised(tactics, refusal(None)), RetryAtOnce)
    assert tactics.report_each
    unknown = refusal(None)
    assert raised(tactics, unknown) is unknown, "more than that cannot be asked for"
    queued_behind = refusal(3, final=False)
    assert raised(tactics, queued_behind) is queued_behind
    assert tactics.report_each
    known = refusal(2)
    assert raised(tactics, known) is known
    assert not tactics.report_each, "its topic is stopped, and the others go on as before"


@pytest.mark.parametrize("good", [49, 50])
def test_after_good_transactions_of_one_session_it_goes_on_as_before_the_trouble(good: int) -> None:
    """Reports of each record cost: one that was refused, or a marker inside a chunk, is not paid for until the end."""
    tactics = Tactics(lone_writer=True)
    raised(tactics, refusal(None))
    tactics.was_mistaken()
    tactics.committed()
    tactics.begin_session()
    for _ in range(good):
        tactics.committed()
    assert (tactics.report_each, tactics.foresees) == (good < 50, good == 50)


def test_where_others_write_too_each_record_always_reports_and_nothing_is_foreseen() -> None:
    tactics = Tactics(lone_writer=False)
    raised(tactics, refusal(2))
    for _ in range(100):
        tactics.committed()
    assert (tactics.report_each, tactics.foresees) == (True, False)
