"""Chooses what to prove by batches, and what is left of it to compare by records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.in_memory_mapping import intersection
from k2k_assets.verification.content.by_batches.stretches import Proven
from k2k_assets.verification.content.sampling import Look, Ranges, Unverified, fair_shares, looks, size, union
from k2k_assets.verification.content.verified import outside

# What two cores prove in some ten seconds, where batches are equal.
RECORDS_IN_ALL = 20_000_000
# Offsets beside a range, of which one should have a record: a marker lies between two transactions.
NEIGHBOURS = 20
# Runs of one partition, and of all: more of them take longer to be spread over tasks than records do to be proven.
RUNS_OF_PARTITION, RUNS_IN_ALL = 300_000, 1_000_000


def to_prove(
    unverified: Mapping[TopicPartition, Unverified],
    look: Mapping[TopicPartition, Look],
    seen: Mapping[TopicPartition, Ranges],
    runs_each: Mapping[TopicPartition, float],
) -> dict[TopicPartition, Ranges]:
    """The ranges to prove: what the other comparison would look at, then all the rest that was found wrong, all that is
    fresh, and all that was not yet seen.

    Args:
        unverified: The ranges that could be compared.
        look: What the other comparison would choose of them.
        seen: The ranges that were compared record by record before.
        runs_each: Number of runs for each source offset.
    """
    chosen = {tp: union([*look[tp].first, *look[tp].second]) for tp in unverified}
    more = {tp: _more(each, chosen[tp], seen.get(tp, ())) for tp, each in unverified.items()}
    most = _most({tp: size(ranges) for tp, ranges in more.items()}, runs_each)
    shares = fair_shares([most[tp] for tp in unverified], RECORDS_IN_ALL)
    return {
        tp: _with_neighbours([*chosen[tp], *_first(more[tp], share)], _all(each))
        for (tp, each), share in zip(unverified.items(), shares, strict=True)
    }


def open_ends(
    ranges: Mapping[TopicPartition, Ranges], unverified: Mapping[TopicPartition, Unverified]
) -> dict[TopicPartition, set[int]]:
    """Where ranges of `to_prove` begin or end though there is more on the other side."""
    return {tp: _bounds(of) - _bounds(_all(unverified[tp])) for tp, of in ranges.items()}


def _all(each: Unverified) -> list[Covered]:
    return union([*each.bad, *each.fresh, *each.older])


def _bounds(ranges: Ranges) -> set[int]:
    return {bound for each in ranges for bound in each}


def _more(each: Unverified, chosen: Ranges, seen: Ranges) -> list[Covered]:
    """All that is not chosen, disjoint, the most important first."""
    found: list[Covered] = []
    for ranges in (each.bad, each.fresh, outside(each.older, seen)):
        found += outside(ranges, union([*chosen, *found]))
    return found


def _most(sizes: Mapping[TopicPartition, int], runs_each: Mapping[TopicPartition, float]) -> dict[TopicPartition, int]:
    """How many offsets of each partition have no more runs than there is time for."""
    each = {tp: runs_each.get(tp, 1.0) for tp in sizes}
    shares = fair_shares([min(RUNS_OF_PARTITION, ceil(sizes[tp] * each[tp])) for tp in sizes], RUNS_IN_ALL)
    # Without any run nothing was copied: all was filtered or aborted.
    return {
        tp: min(sizes[tp], int(share / each[tp])) if each[tp] else 0 for tp, share in zip(sizes, shares, strict=True)
    }


def left_to_compare(
    unverified: Mapping[TopicPartition, Unverified],
    look: Mapping[TopicPartition, Look],
    seen: Mapping[TopicPartition, Ranges],
    proven: Proven,
    budget: int | None,
    seed: int,
) -> dict[TopicPartition, Look]:
    """What the comparison by records has to look at, after some of it was proven.

    Where something is in doubt it looks first; unless records were compared there before, and are not to be looked at
    again: else what can never be proven would take the place of what was never compared. The second look at older
    ranges is done where all that was chosen for it is proven; else it is as it was.

    Args:
        unverified: The ranges that could be compared.
        look: What was chosen of them before anything was proven.
        seen: As of `to_prove`.
        proven: What is proven.
        budget: As of `sampling.looks`.
        seed: Likewise.
    """
    ranges = proven.ranges()
    left: dict[TopicPartition, Unverified] = {}
    done: set[TopicPartition] = set()
    for tp, each in unverified.items():
        chosen = union([*look[tp].first, *look[tp].second])
        of_older = intersection(chosen, each.older)
        proven_here = ranges.get(tp, ())
        if not outside(of_older, proven_here):
            done.add(tp)
        doubts = proven.doubts.get(tp, ())
        unseen = outside(doubts, outside(seen.get(tp, ()), chosen))
        doubtful = intersection(_with_neighbours(unseen, doubts), _all(each))
        left[tp] = Unverified(
            outside(union([*each.bad, *doubtful]), proven_here),
            outside(each.fresh, proven_here),
            () if tp in done else each.older,
            each.lap,
        )
    return {
        tp: replace(found, window=look[tp].window, lap_end=look[tp].lap_end) if tp in done else found
        for tp, found in looks(left, budget, seed).items()
    }


def _with_neighbours(ranges: Iterable[tuple[int, int]], within: Ranges) -> list[Covered]:
    """Ranges with the records beside them: what lies between two copies is seen only where both are compared."""
    wider = union([(start - NEIGHBOURS, end + NEIGHBOURS) for start, end in ranges])
    return list(intersection(wider, within))


def _first(ranges: Sequence[Covered], most: int) -> list[Covered]:
    """The first offsets of some ranges, in their order."""
    found = []
    for start, end in ranges:
        if most > 0:
            found.append(Covered(start, min(end, start + most)))
        most -= end - start
    return found
