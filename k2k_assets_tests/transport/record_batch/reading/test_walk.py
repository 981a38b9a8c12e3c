"""Which batches of an answer count: compared with a model of the log that knows what was committed."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.columns import arrived
from k2k_assets.transport.record_batch.errors import NotByBatches, Unreadable
from k2k_assets.transport.record_batch.reading.walk import Walked, walk
from k2k_assets.transport.record_batch.wire.fetch_messages import Aborted
from k2k_assets_tests.support.brokers.batches import PackedRecord, marker, pack_batch
from k2k_assets_tests.support.suite.properties import examples

ENOUGH = 10**6


def _walk(content: bytes, position: int = 0, stable: int = ENOUGH, *aborted: Aborted) -> Walked:
    return walk(memoryview(content), position, stable, aborted)


def _offsets(batches: list[RecordBatch], position: int) -> list[int]:
    return [offset for batch in batches for found in [arrived(batch, position)] if found for offset in found.offsets]


def _plain(base: int, count: int = 1, **rest: int) -> bytes:
    return pack_batch(base, [PackedRecord(n) for n in range(count)], **rest)  # type: ignore[arg-type]


def test_markers_and_empty_batches_only_move_the_position() -> None:
    walked = _walk(marker(0, 7, abort=False) + pack_batch(1, [], last_delta=4, epoch=3))
    assert (walked.batches, walked.position, walked.last_epoch, walked.fault) == ([], 6, 3, None)


def test_a_batch_that_is_cut_off_comes_again() -> None:
    whole, next_one = _plain(0, 3), _plain(3, 2)
    for cut in (1, 20, len(next_one) - 1):
        walked = _walk(whole + next_one[:cut])
        assert (_offsets(walked.batches, 0), walked.position, walked.fault) == ([0, 1, 2], 3, None)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("value", [b"", b"short", b"longer than a header of today" * 3])
def test_messages_of_old_formats_are_left_to_the_other_client(magic: int, value: bytes) -> None:
    """They may be shorter than a header of today: those are no corrupt batches."""
    time = b"" if magic == 0 else struct.pack(">q", 1)
    body = struct.pack(">bb", magic, 0) + time + struct.pack(">ii", -1, len(value)) + value
    message = struct.pack(">qiI", 7, 4 + len(body), zlib.crc32(body)) + body
    walked = _walk(_plain(5, 2) + message, 5)
    assert (_offsets(walked.batches, 5), walked.position) == ([5, 6], 7)
    assert isinstance(walked.fault, NotByBatches)
    assert _walk(_plain(5, 2) + message[:14], 5).fault is None


def test_records_below_the_position_are_left_out() -> None:
    walked = _walk(_plain(0, 3) + _plain(3, 4), 5)
    assert (_offsets(walked.batches, 5), walked.position) == ([5, 6], 7)


def test_a_gap_below_the_position_leaves_nothing() -> None:
    """The last record of the batch is gone, and the position lies behind what is left."""
    walked = _walk(pack_batch(0, [PackedRecord(0), PackedRecord(2)], last_delta=5), 4)
    assert (_offsets(walked.batches, 4), walked.position) == ([], 6)


def test_an_aborted_transaction_lasts_until_its_marker() -> None:
    log = _plain(0, 2, attributes=16, producer=7) + _plain(2, 1) + marker(3, 7, abort=True)
    log += _plain(4, 2, attributes=16, producer=7) + marker(6, 7, abort=False)
    assert _offsets(_walk(log, 0, ENOUGH, Aborted(7, 0)).batches, 0) == [2, 4, 5]
    # An answer may begin in the middle of it.
    assert _offsets(_walk(log[len(_plain(0, 2)) :], 2, ENOUGH, Aborted(7, 0)).batches, 2) == [2, 4, 5]


def test_nothing_undecided_is_handed_out() -> None:
    walked = _walk(_plain(0, 2) + _plain(2, 2, attributes=16, producer=7), 0, 2)
    assert (_offsets(walked.batches, 0), walked.position) == ([0, 1], 2)


def test_what_lies_before_a_corrupt_batch_is_read() -> None:
    corrupt = bytearray(_plain(2, 2))
    corrupt[-1] ^= 1
    walked = _walk(_plain(0, 2) + corrupt + _plain(4, 2))
    assert (_offsets(walked.batches, 0), walked.position) == ([0, 1], 2)
    assert isinstance(walked.fault, Unreadable)
    assert walked.fault.offset == 2


def test_offsets_that_go_back_are_a_fault() -> None:
    walked = _walk(_plain(0, 3) + _plain(1, 5))
    assert isinstance(walked.fault, Unreadable)
    assert "before the end" in walked.fault.words


@dataclass
class Log:
    """A log, and what a reader of committed records sees of it."""

    batches: list[bytes] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    visible: list[int] = field(default_factory=list)
    aborted: list[tuple[Aborted, int]] = field(default_factory=list)
    end: int = 0

    def answer(self, position: int, size: int) -> tuple[bytes, list[Aborted]]:
        """As a broker answers: from the batch with the position on, and cut off anywhere behind the first batch."""
        first = max(i for i, base in enumerate(self.bases) if base <= position)
        content = b"".join(self.batches[first:])[: max(size, len(self.batches[first]))]
        listed = [each for each, last in self.aborted if last >= self.bases[first]]
        return content, listed


@st.composite
def _logs(draw: st.DrawFn) -> Log:
    log = Log()
    open_at: dict[int, tuple[int, list[int]]] = {}
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["plain", "in a transaction", "in a transaction", "end", "empty"]))
        producer = draw(st.integers(1, 3))
        base = log.end
        deltas = sorted(draw(st.sets(st.integers(0, 5), min_size=1, max_size=4)))
        last = deltas[-1] + draw(st.integers(0, 2))
        offsets = [base + delta for delta in deltas]
        records = [PackedRecord(delta) for delta in deltas]
        if kind == "end":
            if producer not in open_at:
                continue
            first, written = open_at.pop(producer)
            aborts = draw(st.booleans())
            if aborts:
                log.aborted.append((Aborted(producer, first), base))
            else:
                log.visible += written
            packed, last = marker(base, producer, aborts), 0
        elif kind == "in a transaction":
            open_at.setdefault(producer, (base, []))[1].extend(offsets)
            packed = pack_batch(base, records, last_delta=last, attributes=16, producer=producer)
        elif kind == "empty":
            packed = pack_batch(base, [], last_delta=last)
        else:
            log.visible += offsets
            packed = pack_batch(base, records, last_delta=last)
        log.batches.append(packed)
        log.bases.append(base)
        log.end = base + last + 1
    for producer in open_at:
        log.batches.append(marker(log.end, producer, abort=True))
        log.aborted.append((Aborted(producer, open_at[producer][0]), log.end))
        log.bases.append(log.end)
        log.end += 1
    log.visible.sort()
    return log


@given(log=_logs(), data=st.data())
@examples(120)
def test_in_answers_of_any_size_every_committed_record_comes_once(log: Log, data: st.DataObject) -> None:
    if not log.batches:
        return
    start = position = data.draw(st.integers(0, log.end - 1))
    seen: list[int] = []
    while position < log.end:
        content, aborted = log.answer(position, data.draw(st.integers(0, 400)))
        walked = _walk(content, position, log.end, *aborted)
        assert walked.fault is None
        assert walked.position > position
        seen += _offsets(walked.batches, position)
        position = walked.position
    assert seen == [offset for offset in log.visible if offset >= start]


@given(log=_logs(), data=st.data())
@examples(120)
def test_a_damaged_answer_hands_out_what_lies_before_the_damage(log: Log, data: st.DataObject) -> None:
    content = bytearray(b"".join(log.batches))
    if not content:
        return
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    walked = _walk(bytes(content), 0, log.end, *(each for each, _ in log.aborted))
    assert isinstance(walked.fault, Unreadable | NotByBatches | None)
    lengths = [len(batch) for batch in log.batches]
    intact = next(i for i in range(len(lengths)) if sum(lengths[: i + 1]) > at)
    below = log.bases[intact]
    assert [each for each in _offsets(walked.batches, 0) if each < below] == [o for o in log.visible if o < below]
