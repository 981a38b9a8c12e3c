"""Producer ids outside transactions: none that is in use, and no epoch that cannot be."""

from __future__ import annotations

import struct

import pytest

from k2k_assets.core.errors import NotAllowed
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.errors import ProtocolError
from k2k_assets.transport.record_batch.wire.primitives import NO_TAGS
from k2k_assets.transport.record_batch.writing.idempotent_producer import _raised
from k2k_assets.transport.record_batch.writing.producer_ids import ProducerIds

LATER, NOT_ALLOWED = 14, 31


def _answer(producer_id: int, error: int = 0) -> memoryview:
    return memoryview(struct.pack(">ihqh", 0, error, producer_id, 0) + NO_TAGS)


def test_each_answer_gives_one() -> None:
    ids = ProducerIds(3)
    for producer_id in (7, 8):
        ids.next_request().on_answer(_answer(producer_id))
    ids.next_request().on_answer(_answer(-1, LATER))
    assert ids.given == [ProducerIdentity(7, 0), ProducerIdentity(8, 0)]
    assert not ids.has_request()


@pytest.mark.parametrize("second", [7, -1])
def test_one_that_is_given_twice_or_is_none_is_not_believed(second: int) -> None:
    """Two sources under one id would lose records."""
    ids = ProducerIds(2)
    ids.next_request().on_answer(_answer(7))
    with pytest.raises(ProtocolError, match=f"the producer id {second}"):
        ids.next_request().on_answer(_answer(second))


@pytest.mark.parametrize(("error", "raised"), [(NOT_ALLOWED, NotAllowed), (999, Restart)])
def test_an_error_that_does_not_pass_ends_it(error: int, raised: type[Exception]) -> None:
    with pytest.raises(raised, match="asking for a producer id"):
        ProducerIds(1).next_request().on_answer(_answer(-1, error))


@pytest.mark.parametrize(
    ("former", "following"),
    [
        (None, None),
        (ProducerIdentity(7, 0), ProducerIdentity(7, 1)),
        (ProducerIdentity(7, 32_766), ProducerIdentity(7, 32_767)),
        (ProducerIdentity(7, 32_767), None),
        (ProducerIdentity(7, -2), None),
        (ProducerIdentity(-1, 3), None),
        (ProducerIdentity(7, 2**40), None),
    ],
)
def test_an_epoch_is_raised_by_one_as_long_as_there_are_any(
    former: ProducerIdentity | None, following: ProducerIdentity | None
) -> None:
    assert _raised(former) == following
