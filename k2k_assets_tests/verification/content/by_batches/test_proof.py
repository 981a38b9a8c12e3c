"""The proof by batches: what is the same is proven however it was cut, and nothing that is not the same ever is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.transport.record_batch.batches.batch import RecordBatch
from k2k_assets.transport.record_batch.batches.record_codec import decoded
from k2k_assets.transport.record_batch.errors import Unreadable
from k2k_assets.verification.content.by_batches.proof import Doubt, Proof
from k2k_assets_tests.support.suite.properties import examples
from k2k_assets_tests.verification.content.by_batches.copies import Handed, Written, batches, mapped

MAYBE = st.none() | st.binary(max_size=9) | st.sampled_from([b"", b"x" * 62, b"x" * 64, b"x" * 8200])
HEADERS = st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)
TIMES = st.sampled_from([1000, 1001, 1063, 1064, 9191, 9192, 10**12, 0, -1])
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=3)
CODECS = st.lists(st.integers(0, 4), min_size=1, max_size=2)
Run = tuple[int, int, int]


@st.composite
def _copies(draw: st.DrawFn) -> tuple[list[Written], list[Written], list[Run]]:
    """A log, its copy, and the runs between them: with gaps on both sides."""
    source, target, runs = [], [], []
    at, to = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**40))
    for count in draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)):
        runs.append((at, to, count))
        for step in range(count):
            record = Written(at + step, draw(MAYBE), draw(MAYBE), draw(HEADERS), draw(TIMES))
            source.append(record)
            target.append(record._replace(offset=to + step))
        at += count + draw(st.integers(0, 2))
        to += count + draw(st.integers(0, 2))
    joined = [runs[0]]
    for run in runs[1:]:
        start, other, count = joined[-1]
        if (start + count, other + count) == run[:2]:
            joined[-1] = (start, other, count + run[2])
        else:
            joined.append(run)
    return source, target, joined


def _proven(source: Sequence[RecordBatch], target: Sequence[RecordBatch], runs: Sequence[Run], end: int) -> Proof:
    """Goes as far as it gets."""
    proof = Proof(mapped(runs), Handed(source), Handed(target, 3), runs[0][0], end)
    try:
        while proof.step():
            pass
    except Doubt:
        assert not proof.is_complete
    return proof


@given(copies=_copies(), cuts=st.tuples(SIZES, SIZES), codecs=st.tuples(CODECS, CODECS))
@examples(150)
def test_what_is_the_same_is_proven_however_it_was_cut_and_packed(
    copies: tuple[list[Written], list[Written], list[Run]],
    cuts: tuple[list[int], list[int]],
    codecs: tuple[list[int], list[int]],
) -> None:
    source, target, runs = copies
    end = source[-1].offset + 1
    proof = _proven(batches(source, cuts[0], codecs[0]), batches(target, cuts[1], codecs[1]), runs, end)
    assert (proof.is_complete, proof.records, proof.last) == (True, len(source), end - 1)


@given(copies=_copies(), cuts=st.tuples(SIZES, SIZES), codecs=st.tuples(CODECS, CODECS), data=st.data())
@examples(300)
def test_what_is_not_the_same_is_never_proven(
    copies: tuple[list[Written], list[Written], list[Run]],
    cuts: tuple[list[int], list[int]],
    codecs: tuple[list[int], list[int]],
    data: st.DataObject,
) -> None:
    """One side is changed in one place: all before it is proven, and it is not."""
    source, target, runs = copies
    sides = {"source": list(source), "target": list(target)}
    side = data.draw(st.sampled_from(sorted(sides)))
    at = data.draw(st.integers(0, len(source) - 1))
    changed = sides[side]
    record = changed[at]
    kind = data.draw(st.sampled_from(["key", "value", "headers", "timestamp", "missing", "extra"]))
    if kind == "missing":
        del changed[at]
    elif kind == "extra":
        behind = changed[at + 1].offset if at + 1 < len(changed) else record.offset + 2
        if behind == record.offset + 1:  # no offset is free there
            changed[at] = record._replace(value=(record.value or b"") + b"!")
            at -= 1
        else:
            changed.insert(at + 1, record._replace(offset=record.offset + 1))
        at += 1
    elif kind == "headers":
        changed[at] = record._replace(headers=(*record.headers, (b"h", None)))
    elif kind == "timestamp":
        changed[at] = record._replace(timestamp=record.timestamp + 1)
    else:
        content = record.key if kind == "key" else record.value
        other = b"" if content is None else None if content == b"" else bytes([content[0] ^ 1]) + content[1:]
        changed[at] = record._replace(key=other) if kind == "key" else record._replace(value=other)
    end = source[-1].offset + (3 if kind == "extra" else 1)
    behind_last_copy = kind == "extra" and side == "target" and at == len(source)
    proof = _proven(
        batches(sides["source"], cuts[0], codecs[0]), batches(sides["target"], cuts[1], codecs[1]), runs, end
    )
    # A record behind the last copy is no fault: it may be of the copies that come next.
    assert proof.is_complete == behind_last_copy
    assert proof.records == min(at, len(source))


@pytest.mark.parametrize("cut", [(3,), (4,)], ids=["cut alike", "cut differently"])
def test_a_swapped_pair_is_not_proven(cut: tuple[int]) -> None:
    source = [Written(n, b"k", b"v%d" % n) for n in range(9)]
    target = list(source)
    target[4], target[5] = target[5]._replace(offset=4), target[4]._replace(offset=5)
    proof = _proven(batches(source), batches(target, cut), [(0, 0, 9)], 9)
    assert (proof.records, proof.last) == (4, 3)


def test_headers_in_another_order_are_not_proven() -> None:
    one = Written(0, headers=((b"a", b"1"), (b"b", b"2")))
    other = one._replace(headers=one.headers[::-1])
    assert _proven(batches([one]), batches([other]), [(0, 0, 1)], 1).records == 0


def test_equal_batches_are_not_decoded() -> None:
    source = [Written(n, None, b"v%d" % n) for n in range(20)]
    target = [each._replace(offset=each.offset + 7) for each in source]
    same = batches(source, (5,), (3,)), batches(target, (5,), (3,))
    assert same[0][0].payload == same[1][0].payload
    assert _proven(*same, [(0, 7, 20)], 20).undecoded == 20
    other_codec = batches(source, (5,), (3,)), batches(target, (5,), (4,))
    assert _proven(*other_codec, [(0, 7, 20)], 20).undecoded == 20, "unpacked, they are the same"
    cut_otherwise = batches(source, (5,)), batches(target, (4,))
    assert _proven(*cut_otherwise, [(0, 7, 20)], 20).undecoded == 0


def test_the_same_bytes_under_another_codec_are_other_records() -> None:
    """A batch that is said to be packed holds what another one holds plainly."""
    packed = batches([Written(0, None, b"v" * 50)], codecs=(3,))[0]
    plain = packed._replace(attributes=0)
    assert packed.payload == plain.payload
    with pytest.raises(Unreadable):
        _proven([packed], [plain], [(0, 0, 1)], 1)


@pytest.mark.parametrize("attributes", [8, 64], ids=["a broker's time", "a delete horizon"])
@pytest.mark.parametrize("cut", [(3,), (2,)], ids=["cut alike", "cut differently"])
def test_batches_whose_timestamps_are_not_plain_prove_nothing(attributes: int, cut: tuple[int]) -> None:
    records = [Written(n) for n in range(6)]
    special = batches(records, attributes=attributes)
    for pair in ((special, batches(records, cut)), (batches(records, cut), special), (special, special)):
        assert _proven(*pair, [(0, 0, 6)], 6).records == 0


def test_a_batch_of_a_transaction_is_as_good_as_another_one() -> None:
    records = [Written(n) for n in range(6)]
    assert _proven(batches(records), batches(records, attributes=16), [(0, 0, 6)], 6).undecoded == 6


def test_equal_batches_at_other_offsets_than_the_mappings_say_are_not_proven() -> None:
    records = [Written(n, None, b"v%d" % n) for n in range(6)]
    later = [each._replace(offset=each.offset + 1) for each in records]
    assert _proven(batches(records), batches(later), [(0, 0, 6)], 6).records == 0
    assert _proven(batches(records), batches(records), [(0, 1, 6)], 6).records == 0


def test_records_that_are_missing_on_both_sides_are_not_proven() -> None:
    """The mappings say that there are nine, and both logs hold eight: nobody has seen the ninth."""
    records = [Written(n) for n in range(9) if n != 4]
    for cut in ((4,), (3,)):
        assert _proven(batches(records, cut), batches(records, (4,)), [(0, 0, 9)], 9).records == 4
    assert not _proven(batches(records[:4]), batches(records[:4]), [(0, 0, 9)], 9).is_complete


def test_equal_batches_with_gaps_are_looked_into() -> None:
    """Compacted on both sides: what the mappings say of the gaps is not true any more."""
    records = [Written(n) for n in (0, 1, 2, 5, 6)]
    gaps = batches(records, (5,))
    assert not gaps[0].is_whole
    assert _proven(gaps, gaps, [(0, 0, 7)], 7).records == 3
    assert _proven(gaps, gaps, [(0, 0, 3), (5, 5, 2)], 7).is_complete


def test_a_record_of_the_source_behind_the_last_mapped_one_is_a_doubt() -> None:
    records = [Written(n) for n in range(6)]
    proof = _proven(batches(records), batches(records), [(0, 0, 4)], 6)
    assert (proof.records, proof.is_complete) == (4, False)
    assert _proven(batches(records), batches(records), [(0, 0, 4)], 4).is_complete


def test_only_the_records_of_the_stretch_count() -> None:
    records = [Written(n, None, b"v%d" % n) for n in range(20)]
    proof = Proof(mapped([(3, 3, 11)]), Handed(batches(records, (6,))), Handed(batches(records, (6,))), 3, 14)
    while proof.step():
        pass
    assert (proof.records, proof.last, proof.undecoded) == (11, 13, 6)


def test_runs_that_overlap_or_cross_prove_nothing() -> None:
    for runs in ([(0, 0, 5), (4, 5, 2)], [(0, 0, 5), (5, 4, 2)], [(0, 5, 2), (2, 0, 2)], [(0, 0, 0)]):
        with pytest.raises(AssertionError):
            mapped(runs)


@given(copies=_copies(), data=st.data())
@examples(100)
def test_damaged_batches_prove_no_more_than_a_decoder_reads(
    copies: tuple[list[Written], list[Written], list[Run]], data: st.DataObject
) -> None:
    """Damaged before the checksum was made: whatever is proven, a full decoder reads the same on both sides."""
    source, target, runs = copies
    good, other = batches(source, (4,)), batches(target, (3,))
    place = data.draw(st.integers(0, len(other) - 1))
    payload = bytearray(other[place].payload)
    for _ in range(data.draw(st.integers(1, 2))):
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    other[place] = other[place]._replace(payload=memoryview(bytes(payload)))
    proof = Proof(mapped(runs), Handed(good), Handed(other), source[0].offset, source[-1].offset + 1)
    with suppress(Doubt, Unreadable):
        while proof.step():
            pass
    wanted = {r.offset: (r.timestamp, r.key, r.value, r.headers) for r in target[: proof.records]}
    for batch in other:
        with suppress(Unreadable):  # then it is left to the other comparison, behind the last proven record
            made = decoded(batch)
            fields = zip(made.timestamps, made.keys, made.values, map(tuple, made.headers), strict=True)
            for offset, content in zip(made.offsets, fields, strict=True):
                assert content == wanted.get(offset, content)
