"""Two pipelines, one in each direction, on one partition: against a brute-force model of both logs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.runs import Run, runs_of
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.lost_copies import unknown_from
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.reverse import FirstUnread, LogHere, first_unread
from k2k_assets.mapping.algebra.translate import TranslationState

HERE, THERE = Target("t", "here", 0), Target("t", "there", 0)
EXACT, AHEAD, UNKNOWN = TranslationState.EXACT, TranslationState.AHEAD, TranslationState.UNKNOWN
REPEATS = TranslationState.MAY_REPEAT


class Entry(NamedTuple):
    """A record: where it was written, and its offset there; and whether it lies there, or is a copy."""

    side: str
    number: int
    is_copy: bool


@dataclass
class Log:
    """One partition: what each offset holds; None is a marker."""

    side: str
    entries: list[Entry | None] = field(default_factory=list)
    copied_to: int = 0  # how far the other side has copied it
    pairs: list[tuple[int, int]] = field(default_factory=list)

    def write(self, count: int) -> None:
        for _ in range(count):
            self.entries.append(Entry(self.side, len(self.entries), False))

    def copy_to(self, other: Log, count: int, exactly_once: bool = True, crash: bool = False) -> None:
        """The next `count` offsets, in one transaction: copies are not copied back.

        A crash leaves copies that nobody maps, at least once; they are copied again.
        """
        end = min(len(self.entries), self.copied_to + count)
        pairs = []
        for offset in range(self.copied_to, end):
            entry = self.entries[offset]
            if entry is not None and not entry.is_copy:
                pairs.append((offset, len(other.entries)))
                other.entries.append(entry._replace(is_copy=True))
        if crash and not exactly_once:
            return
        self.pairs += pairs
        if end > self.copied_to and exactly_once:
            other.entries.append(None)
        self.copied_to = end

    def map(self, other: Target) -> PartitionMap:
        covered = (Covered(0, self.copied_to),)
        runs = (
            {other: RunTable.of(runs_of([s for s, _ in self.pairs], [t for _, t in self.pairs]))} if self.pairs else {}
        )
        return PartitionMap(SourcePartition("c", "t", "id", 0), 0, covered, runs)

    def read(self, position: int) -> set[Entry]:
        """The records that a reader has read, as they were written."""
        return {entry._replace(is_copy=False) for entry in self.entries[:position] if entry is not None}


@dataclass
class World:
    """Both logs, and the group's view of them."""

    exactly_once: bool = True
    here: Log = field(default_factory=lambda: Log("here"))
    there: Log = field(default_factory=lambda: Log("there"))

    def go(self, steps: list[tuple[str, int]]) -> World:
        for step, count in steps:
            if step in ("here", "there"):
                (self.here if step == "here" else self.there).write(count)
            else:
                ways = (self.here, self.there) if step.startswith("forth") else (self.there, self.here)
                ways[0].copy_to(ways[1], count, self.exactly_once, crash=step.endswith("crash"))
        return self

    def log(self) -> LogHere:
        there_end = None if self.exactly_once else len(self.there.entries)
        return LogHere(0, len(self.here.entries), there_end, not self.exactly_once)

    def at(self, position: int) -> tuple[int, TranslationState, int]:
        return only(first_unread(self.here.map(THERE), THERE, self.there.map(HERE), HERE, each(position), self.log()))


def each(*positions: int) -> np.ndarray:
    return np.array(positions, dtype=np.int64)


def only(found: FirstUnread) -> tuple[int, TranslationState, int]:
    return int(found.offsets[0]), TranslationState(int(found.states[0])), int(found.again[0])


KINDS = ["here", "there", "forth", "back"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 4)), max_size=25)
CRASHES = st.lists(st.tuples(st.sampled_from([*KINDS, "forth crash", "back crash"]), st.integers(1, 4)), max_size=25)


def unread_here(here: Log, read: set[Entry]) -> list[int]:
    return [n for n, entry in enumerate(here.entries) if entry and entry._replace(is_copy=False) not in read]


@given(STEPS)
def test_nothing_is_skipped_and_what_is_read_again_is_counted(steps: list[tuple[str, int]]) -> None:
    world = World().go(steps)
    here, there = world.here, world.there
    for position in range(len(there.entries) + 1):
        read = there.read(position)
        offset, state, again = world.at(position)
        first = min(unread_here(here, read), default=len(here.entries))
        assert offset <= first, "a record would be skipped"
        twice = [n for n, e in enumerate(here.entries) if n >= offset and e and e._replace(is_copy=False) in read]
        assert again == len(twice)
        ahead = position > there.copied_to
        assert state is (AHEAD if ahead else REPEATS if twice else EXACT)
        # Lower than the first unread record only where a marker looks like a record that is not copied there yet.
        assert offset == first or here.entries[offset] is None or not [n for n in twice if n < first]
        if here.copied_to == len(here.entries):
            assert not [n for n in twice if n < first]


@given(STEPS, STEPS, STEPS)
def test_positions_and_both_maps_are_read_one_after_the_other(
    first: list[tuple[str, int]], second: list[tuple[str, int]], third: list[tuple[str, int]]
) -> None:
    world = World().go(first)
    standing = len(world.there.entries)
    world.go(second)
    back, log = world.there.map(HERE), world.log()
    world.go(third)
    for position in range(standing + 1):
        read = world.there.read(position)
        forth = world.here.map(THERE)
        offset, state, again = only(first_unread(forth, THERE, back, HERE, each(position), log))
        unread = unread_here(world.here, read)
        assert offset <= min(unread, default=offset)
        twice = [n for n, e in enumerate(world.here.entries) if n >= offset and e and e._replace(is_copy=False) in read]
        if state is EXACT:
            # What was copied after the cut, of records that were read before it, was not there when it was taken.
            assert [n for n in twice if n < log.end] == []
        assert again <= len(twice)


@given(CRASHES)
def test_at_least_once_nothing_is_skipped_and_exact_means_that_nothing_is_read_again(
    steps: list[tuple[str, int]],
) -> None:
    world = World(exactly_once=False).go(steps)
    here, there = world.here, world.there
    for position in range(len(there.entries) + 1):
        read = there.read(position)
        offset, state, again = world.at(position)
        # What the copy has not got past comes again: until then its copies of a crash are no answer.
        coming = {entry for entry in there.read(len(there.entries)) if entry.number >= there.copied_to}
        assert offset <= min(last_copies(here, read | {e for e in coming if e.side == "there"}), default=offset)
        if state is EXACT:
            assert again == 0
            mapped = {n for _, n in there.pairs} | {n for n, e in enumerate(here.entries) if e and not e.is_copy}
            # Second copies of a crash come again by the guarantee of this mode; the records themselves do not.
            assert not [n for n in mapped if n >= offset and record(here, n) in read]


@given(CRASHES, STEPS)
def test_after_a_change_to_exactly_once_exact_still_means_that_nothing_is_read_again(
    before: list[tuple[str, int]], since: list[tuple[str, int]]
) -> None:
    """All that is copied since is mapped at once, so no end there holds the answer."""
    world = World(exactly_once=False).go(before)
    world.exactly_once = True
    here, there = world.go(since).here, world.there
    log = replace(world.log(), repeats=True)
    coming = {entry for entry in there.read(len(there.entries)) if entry.side == "there"}
    coming = {entry for entry in coming if entry.number >= there.copied_to}
    for position in range(len(there.entries) + 1):
        read = there.read(position)
        found = first_unread(here.map(THERE), THERE, there.map(HERE), HERE, each(position), log)
        offset, state, again = only(found)
        known = read | coming
        last = {record(here, n): n for n, entry in enumerate(here.entries) if entry}
        assert offset <= min((n for entry, n in last.items() if entry not in known), default=offset)
        if state is EXACT:
            twice = [n for n, entry in enumerate(here.entries) if n >= offset and entry and record(here, n) in read]
            assert (again, twice) == (0, [])


def last_copies(here: Log, read: set[Entry]) -> list[int]:
    """Where each record that is not read lies for the last time."""
    last = {record(here, n): n for n in range(len(here.entries))}
    return [n for entry, n in last.items() if entry not in read]


def record(log: Log, offset: int) -> Entry:
    entry = log.entries[offset]
    assert entry is not None
    return entry._replace(is_copy=False)


def test_what_was_read_there_is_passed_over() -> None:
    world = World().go([("here", 2), ("forth", 2), ("there", 3), ("back", 9), ("forth", 9), ("here", 1)])
    # here: a0 a1 | b0 b1 b2 ..., and the last one is not copied yet
    offset, state, again = world.at(len(world.there.entries))
    assert (offset, state, again) == (len(world.here.entries) - 1, AHEAD, 0)
    assert world.at(1) == (1, EXACT, 0)


def test_of_what_the_logs_order_differently_some_is_read_again() -> None:
    world = World().go([("here", 1), ("there", 1), ("forth", 1), ("back", 9), ("forth", 9), ("back", 9)])
    # there: t0 h0' |, and here: h0 t0' |
    assert world.at(1) == (0, REPEATS, 1)
    assert world.at(2)[1:] == (EXACT, 0)


def test_where_copies_have_no_order_of_their_own_nothing_is_read_again() -> None:
    world = World(exactly_once=False).go([("there", 2), ("back", 2), ("here", 1), ("forth", 9), ("back", 9)])
    assert [world.at(at) for at in range(4)] == [(0, EXACT, 0), (1, EXACT, 0), (2, EXACT, 0), (3, EXACT, 0)]


def test_without_proof_there_is_no_answer() -> None:
    world = World().go([("here", 2), ("forth", 2), ("there", 1), ("back", 9), ("forth", 9)])
    forth, back, log = world.here.map(THERE), world.there.map(HERE), world.log()

    def state(forth: PartitionMap, back: PartitionMap, start: int = 0, position: int = 3) -> tuple[int, int]:
        found = first_unread(forth, THERE, back, HERE, each(position), replace(log, start=start))
        return int(found.offsets[0]), int(found.states[0])

    assert state(forth, back)[1] == EXACT
    unproven = PartitionMap(back.source, 3, (Covered(3, 3),), back.runs)
    assert state(forth, unproven, position=2) == (-1, UNKNOWN)
    # Records here that the other direction has never copied may not be read.
    late = replace(forth, began=2, log_start=0, covered=(Covered(2, forth.covered_end),))
    assert state(late, back) == (-1, UNKNOWN)
    assert state(late, back, start=2)[1] == EXACT
    # A mapping record is lost.
    hole = replace(forth, covered=(Covered(0, 1), Covered(2, forth.covered_end)))
    assert state(hole, back) == (-1, UNKNOWN)
    assert state(hole, back, position=0) == (0, REPEATS)  # what lies behind the hole may be read
    assert state(replace(forth, covered=(), runs={}), back) == (-1, UNKNOWN)
    # The topic there was created anew.
    elsewhere = replace(forth, runs={Target("t", "before", 0): forth.runs[THERE]})
    assert state(elsewhere, back) == (-1, UNKNOWN)


def test_what_the_mappings_do_not_count_is_not_called_exact() -> None:
    """The mappings of copies are lost that lie behind the first unread record, and were read."""
    world = World().go([("here", 1), ("there", 3), ("back", 9), ("there", 1), ("back", 1), ("forth", 9), ("back", 9)])
    forth, back, log = world.here.map(THERE), world.there.map(HERE), world.log()
    late = replace(back, covered=(Covered(3, back.covered_end),), runs={HERE: RunTable.of([*back.runs[HERE]][1:])})
    assert only(first_unread(forth, THERE, late, HERE, each(3), log)) == (0, REPEATS, 0)
    assert world.at(3) == (0, REPEATS, 3)


def test_many_positions_are_answered_as_one_by_one() -> None:
    world = World().go([("here", 3), ("there", 2), ("forth", 2), ("back", 4), ("there", 2), ("forth", 5), ("back", 9)])
    maps = world.here.map(THERE), THERE, world.there.map(HERE), HERE
    positions = each(*range(len(world.there.entries) + 1))
    found = first_unread(*maps, positions, world.log())
    assert [world.at(int(at)) for at in positions] == list(
        zip(found.offsets.tolist(), map(TranslationState, found.states.tolist()), found.again.tolist(), strict=True)
    )


def test_behind_what_was_skipped_by_hand_here_nothing_is_known_of_what_was_read() -> None:
    """The copy there went on behind 40 to 59, which nobody has read there."""
    there = [Run(0, 0, 40), Run(60, 41, 30)]
    forth = PartitionMap(SourcePartition("b", "t", "here", 0), 0, (Covered(0, 90),), {THERE: RunTable.of(there)}, 0)
    back = PartitionMap(SourcePartition("a", "t", "there", 0), 0, (Covered(0, 72),), {}, 0)
    at = each(0, 30, 39, 40, 60, 71)
    forth = replace(forth, skipped=(Covered(40, 60),))
    found = first_unread(forth, THERE, back, HERE, at, LogHere(0, 90))
    assert found.offsets.tolist() == [0, 30, 39, -1, -1, -1]
    assert found.states.tolist() == [REPEATS] * 3 + [UNKNOWN] * 3
    deleted = first_unread(forth, THERE, back, HERE, at, LogHere(60, 90))
    assert deleted.offsets.tolist() == [0, 30, 39, 60, 79, 90]
    assert set(deleted.states.tolist()) == {EXACT}
    at_the_end = replace(forth, covered=(Covered(0, 60),), runs={THERE: RunTable.of(there[:1])})
    assert int(first_unread(at_the_end, THERE, back, HERE, at, LogHere(0, 90)).offsets[-1]) == -1


def test_behind_a_cut_off_of_the_log_here_nothing_is_known_of_what_was_read() -> None:
    """All was written here, and copied there. Then the log here was cut off at 40, and grew to 70 by other records."""
    forth = PartitionMap(
        SourcePartition("b", "t", "here", 0), 0, (Covered(0, 60),), {THERE: RunTable.of([Run(0, 0, 60)])}, 0
    )
    back = PartitionMap(SourcePartition("a", "t", "there", 0), 0, (Covered(0, 61),), {}, 0)
    log, at = LogHere(0, 70), each(0, 30, 39, 40, 60, 61)
    before, after = (first_unread(known, THERE, back, HERE, at, log) for known in (forth, unknown_from(forth, 40)))
    assert before.offsets.tolist() == [0, 30, 39, 40, 60, 60]
    assert after.offsets.tolist() == [0, 30, 39, -1, -1, -1]
    # What lies behind may be read, for all that is known.
    assert after.states.tolist() == [REPEATS] * 3 + [UNKNOWN] * 3
    unasked = first_unread(unknown_from(forth, -1), THERE, back, HERE, at, log)
    assert set(unasked.states.tolist()) == {UNKNOWN}
