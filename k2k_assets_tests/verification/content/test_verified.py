"""A verified position hides no fault: evaluations of a copy that grows, breaks, is repaired, replaced and pruned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.in_memory_mapping import intersection
from k2k_assets.verification.content import sampling
from k2k_assets.verification.content.sampling import looks, size
from k2k_assets.verification.content.verified import Compared, MappedRecord, Verified, asked_for, outside, updated
from k2k_assets_tests.support.suite.properties import examples

BUDGET = 160


@contextmanager
def _small_budget() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "RECORDS_IN_ALL", BUDGET)
        patch.setattr(sampling, "LEAST_PER_PARTITION", 16)
        yield


@dataclass
class Copy:
    """One source partition as it is copied: where each mapped record went, and which copies are wrong."""

    mapped: dict[int, int] = field(default_factory=dict)
    end: int = 0
    target_end: int = 0
    log_start: int = 0
    wrong: set[int] = field(default_factory=set)
    verified: Verified = field(default_factory=Verified)
    turn: int = 0

    def grow(self, count: int, gap: int = 0) -> None:
        """Copies records; behind them lie offsets that are mapped nowhere."""
        for offset in range(self.end, self.end + count):
            self.mapped[offset] = self.target_end
            self.target_end += 1
        self.end += count + gap

    def go_back(self, to: int) -> None:
        """Copies on from an earlier position: nothing that was mapped from there on counts any more."""
        self.mapped = {offset: at for offset, at in self.mapped.items() if offset < to}
        self.wrong = {offset for offset in self.wrong if offset < to}
        self.end = to

    def evaluate(self, rounds: int = 99) -> bool:
        """One evaluation, in which time runs out after some pieces; whether it passes."""
        readable = intersection([Covered(0, self.end)], [Covered(self.log_start, 10**9)])
        if not readable:
            return True
        known = self.verified.within(readable)
        with _small_budget():
            look = looks({0: known.unverified(readable)}, None, self.turn)[0]
        pieces = [*look.first, *look.second]
        done, left = pieces[:rounds], pieces[rounds:]
        compared = Compared(list(done))
        compared.first_left = sum(piece in look.first for piece in left)
        compared.second_left = sum(piece in look.second for piece in left)
        for offset in sorted(self.wrong):
            if any(start <= offset < end for start, end in done):
                compared.bad.append(Covered(offset, offset + 1))
        for before in asked_for(known, look, readable):
            below = (at for a, b in sorted(done, reverse=True) for at in range(min(b, before) - 1, a - 1, -1))
            last = next((at for at in below if at in self.mapped), None)
            if last is not None:
                compared.last_before[before] = MappedRecord(
                    source_offset=last, target_topic_id="t", target_partition=0, target_offset=self.mapped[last]
                )
        assert size(done) <= BUDGET
        self.verified = updated(known, self.verified, look, readable, compared, self.turn)
        self.turn += 1
        return not self.verified.bad

    def evaluations_for_all(self) -> int:
        """As many as find whatever there is: laps of half of a quarter of the budget, and some to fall back in."""
        return 2 * (self.end // (BUDGET // 8) + 4)


@examples(60)
@given(st.data())
def test_a_fault_is_found_in_bounded_time_stays_until_it_is_mended_and_is_then_verified(data: st.DataObject) -> None:
    copy = Copy()
    for _ in range(data.draw(st.integers(1, 5))):
        copy.grow(data.draw(st.integers(1, 300)), data.draw(st.integers(0, 60)))
        copy.evaluate(data.draw(st.integers(1, 9)))
    assert not copy.verified.bad
    fault = data.draw(st.sampled_from(sorted(copy.mapped)))
    copy.wrong.add(fault)
    grows = data.draw(st.booleans())
    for _ in range(copy.evaluations_for_all()):
        if not copy.evaluate():
            break
        copy.grow(30 if grows else 0)
    assert any(start <= fault < end for start, end in copy.verified.bad)
    for _ in range(3):
        copy.grow(50)
        assert not copy.evaluate(data.draw(st.integers(1, 9))), "what is bad stays bad"
    copy.wrong.clear()
    assert copy.evaluate()
    copy.evaluate()
    assert copy.verified.last is not None
    assert copy.verified.position == copy.end


@examples(60)
@given(st.data())
def test_in_bounded_time_all_of_it_was_looked_at_record_by_record(data: st.DataObject) -> None:
    copy = Copy()
    copy.grow(data.draw(st.integers(1, 1500)))
    before = copy.end
    growth = data.draw(st.lists(st.sampled_from([0, 0, 10, 60, 250]), min_size=1, max_size=5))
    for turn in range(copy.evaluations_for_all()):
        copy.evaluate()
        copy.grow(growth[turn % len(growth)])
    assert not outside([Covered(0, before)], copy.verified.seen)


@examples(60)
@given(st.data())
def test_what_was_copied_anew_is_not_taken_for_verified(data: st.DataObject) -> None:
    copy = Copy()
    copy.grow(data.draw(st.integers(2, 400)))
    for _ in range(copy.evaluations_for_all()):
        copy.evaluate()
    assert not outside([Covered(0, copy.end)], copy.verified.seen)
    to = data.draw(st.integers(0, copy.end - 1))
    copy.go_back(to)
    copy.grow(data.draw(st.integers(1, 600)))
    copy.evaluate()
    # The earlier state is discarded, so this is only about the ranges of this evaluation.
    seen = intersection(copy.verified.seen, [Covered(to, copy.end)])
    assert size(seen) <= BUDGET
    copy.wrong.add(data.draw(st.integers(to, copy.end - 1)))
    assert not all(copy.evaluate() for _ in range(copy.evaluations_for_all()))


def _verified(end: int = 100) -> Copy:
    copy = Copy()
    copy.grow(end)
    assert copy.evaluate()
    assert (copy.verified.position, copy.verified.seen) == (end, (Covered(0, end),))
    return copy


def _last(known: Verified) -> dict[int, MappedRecord]:
    assert known.last is not None
    return {known.last.source_offset + 1: known.last}


def test_what_retention_took_from_the_source_is_not_missed() -> None:
    copy = _verified()
    copy.log_start = 60
    copy.grow(10)
    assert copy.evaluate()
    assert copy.verified.seen == (Covered(60, 110),)
    copy.log_start = 200
    copy.grow(150)
    copy.evaluate()
    assert (copy.verified.position, copy.verified.seen) == (260, (Covered(200, 260),))


def test_mappings_that_were_pruned_or_end_earlier_are_not_verified_any_more() -> None:
    known = _verified().verified
    assert known.within([Covered(40, 100)]).position == 100
    assert known.within([Covered(40, 100)]).seen == (Covered(40, 100),)
    for readable in ([Covered(0, 99)], [Covered(100, 300)], [Covered(0, 50), Covered(100, 300)]):
        left = known.within(readable)
        assert (left.last, left.seen) == (None, ())


def test_where_nothing_is_mapped_all_is_looked_at_each_time() -> None:
    """There is no record by which a copy that was made anew could be told."""
    copy = Copy()
    copy.grow(0, gap=30)
    for _ in range(2):
        assert copy.evaluate()
        assert (copy.verified.position, copy.verified.last, copy.verified.seen) == (30, None, (Covered(0, 30),))
        assert copy.verified.within([Covered(0, 30)]).unverified([Covered(0, 30)]).fresh == [Covered(0, 30)]
    copy.go_back(0)
    copy.grow(40)
    copy.wrong.add(3)
    assert not copy.evaluate()


def test_what_cannot_be_read_yet_holds_the_position_back() -> None:
    copy = _verified()
    copy.grow(20)
    readable = [Covered(0, 120)]
    known = copy.verified.within(readable)
    look = looks({0: known.unverified(readable)}, None, 0)[0]
    compared = Compared(list(look.first), hidden=[Covered(99, 100)], last_before=_last(known))
    after = updated(known, known, look, readable, compared, 9)
    assert (after.position, after.seen, after.turn) == (100, (Covered(0, 100),), 9)


def test_what_was_wrong_and_cannot_be_read_now_is_still_wrong() -> None:
    readable, wrong, others = [Covered(0, 100)], Covered(10, 13), Covered(50, 60)
    known = Verified(bad=(wrong, others))
    look = looks({0: known.unverified(readable)}, None, 0)[0]
    after = updated(known, known, look, readable, Compared(readable, hidden=[Covered(11, 12)]), 1)
    assert after.bad == (Covered(11, 12),), "the others were read, and are right"
    assert after.position == 0
    assert updated(after, after, look, readable, Compared(readable), 2).bad == ()


def test_what_another_evaluation_found_meanwhile_is_kept() -> None:
    copy = Copy()
    copy.grow(3000)
    copy.evaluate()
    copy.evaluate()
    readable = [Covered(0, 3000)]
    known = copy.verified.within(readable)
    with _small_budget():
        look = looks({0: known.unverified(readable)}, None, 1)[0]
    done = [*look.first, *look.second]
    inside = done[0][0]
    somewhere = next(offset for offset in range(3000) if not any(a <= offset < b for a, b in done))
    other = known.model_copy(update={"bad": (Covered(inside, inside + 1), Covered(somewhere, somewhere + 1))})
    after = updated(known, other, look, readable, Compared(done, last_before=_last(known)), 9)
    assert after.bad == (Covered(somewhere, somewhere + 1),), "the one within was looked at, and is good"


def test_very_many_ranges_are_bounded_and_no_bad_one_is_lost() -> None:
    readable = [Covered(0, 10_000)]
    known = Verified()
    look = looks({0: known.unverified(readable)}, None, 0)[0]
    bad = [Covered(offset, offset + 1) for offset in range(0, 10_000, 50)]
    after = updated(known, known, look, readable, Compared(readable, bad=bad), 1)
    assert len(after.bad) <= 64
    assert not outside(bad, after.bad)
    apart = Compared([Covered(offset, offset + 10 + offset % 7) for offset in range(0, 10_000, 50)])
    seen = updated(known, known, look, readable, apart, 1).seen
    assert len(seen) == 64
    assert min(end - start for start, end in seen) >= 14, "the smallest are forgotten"
