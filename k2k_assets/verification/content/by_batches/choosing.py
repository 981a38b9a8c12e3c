"""Chooses what to prove by batches, and what is left of it to compare by records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.in_memory_mapping import intersection
from k2k_assets.verification.content.by_batches.stretches import Proven
from k2k_assets.verification.content.sampling import Look, Ranges, Unverified, fair_shares, joined, looks, size
from k2k_assets.verification.content.verified import outside

# What two cores prove in some ten seconds, where batches are equal.
RECORDS_IN_ALL = 20_000_000
# Runs of one partition: more of them take longer to be spread over tasks than records do to be proven.
RUNS_OF_PARTITION = 300_000


def to_prove(
    unverified: Mapping[TopicPartition, Unverified],
    look: Mapping[TopicPartition, Look],
    seen: Mapping[TopicPartition, Ranges],
    runs_each: Mapping[TopicPartition, float],
) -> dict[TopicPartition, Ranges]:
    """The ranges to prove: what the other comparison would look at, then all that is fresh, then all not yet seen.

    Args:
        unverified: The ranges that could be compared.
        look: What the other comparison would choose of them.
        seen: The ranges that were compared record by record before.
        runs_each: Number of runs for each source offset.
    """
    chosen = {tp: _joined([*each.bad, *look[tp].first, *look[tp].second]) for tp, each in unverified.items()}
    more = {
        tp: [*outside(each.fresh, chosen[tp]), *outside(outside(each.older, seen.get(tp, ())), chosen[tp])]
        for tp, each in unverified.items()
    }
    most = {tp: RUNS_OF_PARTITION / runs_each.get(tp, 1.0) for tp in unverified}
    shares = fair_shares([int(min(size(more[tp]), most[tp])) for tp in unverified], RECORDS_IN_ALL)
    return {tp: _joined([*chosen[tp], *_first(more[tp], share)]) for tp, share in zip(unverified, shares, strict=True)}


def left_to_compare(
    unverified: Mapping[TopicPartition, Unverified],
    look: Mapping[TopicPartition, Look],
    proven: Proven,
    budget: int | None,
    seed: int,
) -> dict[TopicPartition, Look]:
    """What the comparison by records has to look at, after some of it was proven.

    Where something is in doubt it looks first. The second look at older ranges is done where all that was chosen for it
    is proven; else it is as it was.

    Args:
        unverified: The ranges that could be compared.
        look: What was chosen of them before anything was proven.
        proven: What is proven.
        budget: As of `sampling.looks`.
        seed: Likewise.
    """
    ranges = proven.ranges()
    left: dict[TopicPartition, Unverified] = {}
    done: set[TopicPartition] = set()
    for tp, each in unverified.items():
        of_older = intersection(_joined([*look[tp].first, *look[tp].second]), each.older)
        proven_here = ranges.get(tp, ())
        if not outside(of_older, proven_here):
            done.add(tp)
        doubtful = intersection(proven.doubts.get(tp, ()), _joined([*each.older, *each.fresh]))
        left[tp] = Unverified(
            outside(_joined([*each.bad, *doubtful]), proven_here),
            outside(each.fresh, proven_here),
            () if tp in done else each.older,
            each.lap,
        )
    return {
        tp: replace(found, window=look[tp].window, lap_end=look[tp].lap_end) if tp in done else found
        for tp, found in looks(left, budget, seed).items()
    }


def _joined(ranges: Iterable[Covered]) -> list[Covered]:
    return [Covered(*each) for each in joined(ranges, 0)]


def _first(ranges: Sequence[Covered], most: int) -> list[Covered]:
    """The first offsets of some ranges, in their order."""
    found = []
    for start, end in ranges:
        if most > 0:
            found.append(Covered(start, min(end, start + most)))
        most -= end - start
    return found
