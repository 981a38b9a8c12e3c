"""Small batches that are read as one: their records, and all else, are as without it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.batch import batch_at
from k2k_assets.transport.record_batch.batches.record_codec import decoded
from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets.transport.record_batch.reading.walk import Walked, walk
from k2k_assets.transport.record_batch.wire.fetch_messages import Aborted
from k2k_assets_tests.support.brokers.batches import PackedRecord, checked, marker, pack_batch
from k2k_assets_tests.support.memory.traced import in_a_fork
from k2k_assets_tests.support.suite.properties import examples

ENOUGH = 10**6


def _both(
    content: bytes, position: int = 0, stable: int = ENOUGH, aborted: Sequence[Aborted] = (), most: int = ENOUGH
) -> tuple[Walked, Walked]:
    """Read as one, and one by one."""
    view = memoryview(content)
    return walk(view, position, stable, aborted, most_joined=most), walk(view, position, stable, aborted)


def _records(walked: Walked) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for batch in walked.batches:
        each = decoded(batch)
        epochs = [batch.leader_epoch] * batch.records
        found += zip(each.offsets, each.timestamps, each.keys, each.values, each.headers, epochs, strict=True)
    return found


def _ensure_same(joined: Walked, plain: Walked) -> None:
    assert _records(joined) == _records(plain)
    assert (joined.position, joined.last_epoch) == (plain.position, plain.last_epoch)
    assert str(joined.fault) == str(plain.fault)


def _log(count: int, of: int = 1, **rest: int) -> list[bytes]:
    records = [PackedRecord(n, b"key", b"value %d" % n, [(b"h", None)], later=n - 2) for n in range(of)]
    return [pack_batch(n * of, records, timestamp=1000 - 7 * (n % 3), **rest) for n in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize("of", [1, 4, 24])
def test_many_small_ones_become_one(of: int) -> None:
    joined, plain = _both(b"".join(_log(100, of)))
    _ensure_same(joined, plain)
    assert (len(joined.batches), len(plain.batches)) == (1, 100)
    (batch,) = joined.batches
    whole = bytes(batch.header) + bytes(batch.payload)
    again = batch_at(memoryview(whole), 0, len(whole))
    latest = max(time for each in plain.batches for time in decoded(each).timestamps)
    assert (again.base, again.records, again.max_timestamp) == (0, 100 * of, latest)


def test_what_is_joined_is_no_larger_than_a_usual_batch() -> None:
    log = b"".join(pack_batch(n, [PackedRecord(0, None, bytes(1000))]) for n in range(1000))
    joined, plain = _both(log)
    _ensure_same(joined, plain)
    assert len(joined.batches) == 6
    assert max(batch.size for batch in joined.batches) <= 256 * 1024


@pytest.mark.parametrize(("most", "sizes"), [(1, [4] * 25), (11, [8] * 12 + [4]), (12, [12] * 8 + [4]), (100, [100])])
def test_what_is_joined_has_no_more_records_than_a_commit_takes(most: int, sizes: list[int]) -> None:
    joined, plain = _both(b"".join(_log(25, 4)), most=most)
    _ensure_same(joined, plain)
    assert [batch.records for batch in joined.batches] == sizes


def test_few_are_left_as_they_are() -> None:
    joined, _ = _both(b"".join(_log(7)))
    assert len(joined.batches) == 7


def test_batches_of_many_records_are_left_as_they_are() -> None:
    records = [PackedRecord(n, None, bytes(200)) for n in range(25)]
    joined, _ = _both(b"".join(pack_batch(25 * n, records) for n in range(20)))
    assert len(joined.batches) == 20


def test_the_ones_before_the_damage_are_handed_out() -> None:
    log = _log(40, 2)
    log[20] = log[20][:-1] + b"?"
    joined, plain = _both(b"".join(log))
    _ensure_same(joined, plain)
    assert isinstance(joined.fault, Unreadable)
    assert joined.fault.offset == 40


def test_a_record_that_reaches_into_the_next_batch_is_found() -> None:
    """All sums are right: the first batch holds two records and says one, the second none and says one."""
    two = pack_batch(0, [PackedRecord(0), PackedRecord(0)], count=1, last_delta=0)
    none = pack_batch(1, [], count=1, last_delta=0)
    joined, plain = _both(two + none + b"".join(_log(20))[2 * len(_log(1)[0]) :])
    assert len(joined.batches) == len(plain.batches) == 20
    with pytest.raises(Unreadable):
        decoded(joined.batches[0])


def test_more_records_than_there_can_be_are_not_believed() -> None:
    count = 900_000
    log = [pack_batch(n * count, [PackedRecord(0)], count=count, last_delta=count - 1) for n in range(20)]

    def check() -> None:
        tracemalloc.start()
        joined, _ = _both(b"".join(log), stable=10**9)
        _, most = tracemalloc.get_traced_memory()
        assert len(joined.batches) == 20
        assert most < 1_000_000

    in_a_fork(check)


def test_aborted_ones_are_left_out() -> None:
    open_ = b"".join(_log(30, attributes=16, producer=7))
    ended = open_ + marker(30, 7, abort=True)
    joined, plain = _both(ended, 0, ENOUGH, [Aborted(7, 0)])
    _ensure_same(joined, plain)
    assert joined.batches == []
    joined, plain = _both(ended)
    _ensure_same(joined, plain)
    assert len(joined.batches) == 1
    assert joined.batches[0].is_transactional is False


def test_nothing_undecided_is_handed_out() -> None:
    joined, plain = _both(b"".join(_log(30)), 0, 20)
    _ensure_same(joined, plain)
    assert joined.position == 20


_KINDS = (
    "small",
    "small",
    "small",
    "small",
    "in a transaction",
    "marker",
    "gap",
    "packed",
    "no time",
    "epoch",
    "large",
)


@st.composite
def _logs(draw: st.DrawFn) -> tuple[list[bytes], int]:
    made: list[bytes] = []
    end, epoch = 0, 1
    for kind in draw(st.lists(st.sampled_from(_KINDS), max_size=8)):
        for _ in range(draw(st.sampled_from([1, 2, 9, 20]))):
            times = st.integers(-3, 10**12)
            count = 30 if kind == "large" else draw(st.integers(1, 3))
            records = [PackedRecord(n, b"k" * (n % 3), b"v%d" % end, later=draw(times)) for n in range(count)]
            base = end + 3 * (kind == "gap")
            epoch += kind == "epoch"
            attributes = {"in a transaction": 16, "packed": 1}.get(kind, 0)
            producer = 5 if kind == "in a transaction" else -1
            packed = pack_batch(
                base, records, attributes=attributes, producer=producer, epoch=epoch,
                timestamp=-1 if kind == "no time" else 10**9,
            )  # fmt: skip
            made.append(marker(base, 5, abort=False, epoch=epoch) if kind == "marker" else packed)
            end = base + (1 if kind == "marker" else count)
    return made, end


@given(log=_logs(), data=st.data())
@examples(120)
def test_it_makes_no_difference(log: tuple[list[bytes], int], data: st.DataObject) -> None:
    batches, end = log
    content = b"".join(batches)
    cut = data.draw(st.integers(0, len(content)))
    position = data.draw(st.integers(0, end))
    stable = data.draw(st.integers(0, end))
    _ensure_same(*_both(content[:cut], position, stable, most=data.draw(st.integers(1, 40))))


@given(log=_logs(), data=st.data())
@examples(120)
def test_damage_makes_no_difference(log: tuple[list[bytes], int], data: st.DataObject) -> None:
    batches, _ = log
    if not batches:
        return
    which = data.draw(st.integers(0, len(batches) - 1))
    damaged = bytearray(batches[which])
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    rest = b"".join(batches[which + 1 :])
    joined, plain = _both(b"".join(batches[:which]) + bytes(damaged) + rest)
    assert type(joined.fault) is type(plain.fault)
    assert joined.position == plain.position
    # With a right sum in the place of the damaged one, only the structure is left to tell.
    if len(damaged) > 21:
        joined, plain = _both(b"".join(batches[:which]) + checked(bytes(damaged)) + rest)
        assert joined.position == plain.position
        assert sum(each.records for each in joined.batches) == sum(each.records for each in plain.batches)
