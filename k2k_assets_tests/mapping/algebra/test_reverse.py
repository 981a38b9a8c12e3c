"""Two pipelines, one in each direction, on one partition: against a brute-force model of both logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.runs import runs_of
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.reverse import first_unread
from k2k_assets.mapping.algebra.translate import TranslationState

HERE, THERE = Target("t", "here", 0), Target("t", "there", 0)


@dataclass
class Log:
    """One partition: what each offset holds. `own` records were written here, others are copies; None is a marker."""

    entries: list[tuple[str, int] | None] = field(default_factory=list)
    copied_to: int = 0  # how far the other side has copied it
    pairs: list[tuple[int, int]] = field(default_factory=list)

    def copy_to(self, other: Log, count: int) -> None:
        """The next `count` offsets, in one transaction: copies are not copied back."""
        end = min(len(self.entries), self.copied_to + count)
        for offset in range(self.copied_to, end):
            entry = self.entries[offset]
            if entry is not None and entry[0] == "own":
                self.pairs.append((offset, len(other.entries)))
                other.entries.append(("copy", offset))
        if end > self.copied_to:
            other.entries.append(None)
        self.copied_to = end

    def map(self, other: Target) -> PartitionMap:
        covered = (Covered(0, self.copied_to),) if self.copied_to else ()
        runs = (
            {other: RunTable.of(runs_of([s for s, _ in self.pairs], [t for _, t in self.pairs]))} if self.pairs else {}
        )
        return PartitionMap(SourcePartition("c", "t", "id", 0), 0, covered, runs)


STEPS = st.lists(st.tuples(st.sampled_from(["here", "there", "forth", "back"]), st.integers(1, 4)), max_size=25)


def run(steps: list[tuple[str, int]]) -> tuple[Log, Log]:
    here, there = Log(), Log()
    for step, count in steps:
        if step == "here":
            here.entries += [("own", len(here.entries) + n) for n in range(count)]
        elif step == "there":
            there.entries += [("own", len(there.entries) + n) for n in range(count)]
        elif step == "forth":
            here.copy_to(there, count)
        else:
            there.copy_to(here, count)
    return here, there


@given(STEPS, st.integers(0, 60))
def test_the_first_record_that_was_not_read(steps: list[tuple[str, int]], at: int) -> None:
    here, there = run([("here", 1), ("there", 2), ("forth", 1), ("back", 2), *steps])
    position = at % (len(there.entries) + 1)
    copied = dict(here.pairs)
    unread, read = list[int](), list[int]()
    for offset, entry in enumerate(here.entries):
        if entry is None:
            continue
        kind, origin = entry
        was_read = (copied.get(offset, position) if kind == "own" else origin) < position
        (read if was_read else unread).append(offset)
    offset, state = first_unread(here.map(THERE), THERE, there.map(HERE), HERE, position)
    first = min(unread, default=len(here.entries))
    assert state in (TranslationState.EXACT, TranslationState.AHEAD)
    assert offset <= first, "a record would be skipped"
    again = [each for each in read if offset <= each < first]
    # After the copied records a marker looks like a record that was not copied, so the answer is the first of these.
    assert not again or offset >= here.copied_to
    assert not again or here.entries[offset] is None


def test_what_was_read_there_is_passed_over() -> None:
    here, there = run([("here", 2), ("forth", 2), ("there", 3), ("back", 9), ("forth", 9), ("here", 1)])
    # here: a0 a1 | b0 b1 b2 ..., and the last one is not copied yet
    maps = (here.map(THERE), THERE, there.map(HERE), HERE)
    everything = first_unread(*maps, len(there.entries))
    assert here.entries[everything[0]] == ("own", everything[0])
    assert everything[0] == len(here.entries) - 1
    assert first_unread(*maps, 1)[0] == 1


def test_without_proof_there_is_no_answer() -> None:
    here, there = run([("here", 2), ("forth", 2), ("there", 1), ("back", 9)])
    back = there.map(HERE)
    unproven = PartitionMap(back.source, 3, (Covered(3, 3),), back.runs)
    assert first_unread(here.map(THERE), THERE, unproven, HERE, 2) == (-1, TranslationState.UNKNOWN)
