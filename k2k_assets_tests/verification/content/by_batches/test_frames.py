"""Frames say of records what a full decoder says, with any guess, and of damaged ones that they are damaged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.codecs import decompressed
from k2k_assets.transport.record_batch.batches.record_codec import decoded
from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets.verification.content.by_batches.frames import RecordFrames, SizesGuess, frames_of
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_record
from k2k_assets_tests.support.suite.properties import examples
from k2k_assets_tests.verification.content.by_batches.copies import Written, batches

VALUES = st.sampled_from([b"", b"v", b"x" * 50, b"x" * 61, b"x" * 90, b"x" * 8190, b"x" * 1_050_000])
STRETCHES = st.lists(st.tuples(VALUES, st.integers(1, 70), st.integers(-70, 9000)), min_size=1, max_size=4)


def _records(stretches: list[tuple[bytes, int, int]]) -> list[Written]:
    """Stretches of records of one size, which are found in another way than lone ones."""
    each = [(value, later) for value, count, later in stretches for _ in range(count if len(value) < 9000 else 1)]
    return [Written(7 + n, None, value, (), 10**12 + later * n) for n, (value, later) in enumerate(each)]


def _contents(found: list[RecordBatch]) -> list[bytes]:
    return [decompressed(batch.codec, batch.payload) for batch in found]


def _values(frames: RecordFrames) -> list[bytes]:
    return [frames.content[a:b] for a, b in zip(frames.bodies.tolist(), frames.ends.tolist(), strict=True)]


@given(stretches=STRETCHES, size=st.integers(1, 90), data=st.data())
@examples(60)
def test_frames_are_what_a_decoder_reads_whatever_is_guessed(
    stretches: list[tuple[bytes, int, int]], size: int, data: st.DataObject
) -> None:
    records = _records(stretches)
    some = batches(records, (size,))
    frames = frames_of(some, _contents(some))
    made = [decoded(batch) for batch in some]
    assert frames.offsets.tolist() == [offset for each in made for offset in each.offsets]
    assert frames.timestamps.tolist() == [time for each in made for time in each.timestamps]
    bodies = [pack_record(PackedRecord(0, None, record.value)) for record in records]
    assert all(packed.endswith(body) for packed, body in zip(bodies, _values(frames), strict=True))
    lengths = frames.ends - frames.bodies
    wrong = data.draw(st.integers(0, len(records) - 1))
    lengths[wrong] += data.draw(st.integers(-3, 3))
    count = data.draw(st.integers(0, len(records)))
    guess = SizesGuess(frames.offsets[:count], frames.timestamps[:count], lengths[:count])
    again = frames_of(some, _contents(some), guess)
    for name in ("starts", "bodies", "ends", "offsets", "timestamps"):
        assert np.array_equal(getattr(again, name), getattr(frames, name)), name


@given(stretches=STRETCHES, data=st.data())
@examples(60)
def test_damaged_records_are_a_fault_or_lie_within_their_batch(
    stretches: list[tuple[bytes, int, int]], data: st.DataObject
) -> None:
    (batch,) = batches(_records(stretches), (1000,))
    content = bytearray(batch.payload)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    left = bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    try:
        frames = frames_of([batch], [left])
    except Unreadable:
        return
    assert len(frames) == batch.records
    assert (np.diff(frames.offsets) > 0).all()
    assert batch.base <= frames.offsets[0]
    assert frames.offsets[-1] < batch.end
    assert (frames.bodies <= frames.ends).all()
    assert frames.ends[-1] == len(left)


@pytest.mark.parametrize("count", [2, 4])
def test_more_or_less_records_than_the_header_says_are_a_fault(count: int) -> None:
    (batch,) = batches([Written(n) for n in range(3)])
    with pytest.raises(Unreadable):
        frames_of([batch._replace(records=count)], [bytes(batch.payload)])


def test_records_that_reach_into_the_next_batch_are_a_fault() -> None:
    some = batches([Written(n) for n in range(4)], (2,))
    whole = b"".join(_contents(some))
    with pytest.raises(Unreadable, match="more or less records"):
        frames_of(some, [whole[:5], whole[5:]])


def test_a_wrong_guess_that_leads_into_values_without_any_number_does_no_harm() -> None:
    """As where a stretch begins within a batch: the other side's records are not the first ones of it."""
    records = [Written(n, None, b"\xff" * (60 + 37 * n % 50)) for n in range(40)]
    some = batches(records, (40,))
    frames = frames_of(some, _contents(some))
    guess = SizesGuess(frames.offsets[3:], frames.timestamps[3:], (frames.ends - frames.bodies)[3:])
    again = frames_of(some, _contents(some), guess)
    assert np.array_equal(again.ends, frames.ends)
