"""Check: commit log and mappings agree. The mappings cover all offsets from where copying began to the position.

```
  covered   [0, 700) [700, 1000)            position 1000     good
  covered   [0, 700)      [800, 1000)       position 1000     where 700 to 800 were copied to is not known
  covered   [0, 700)                        position 1000     the mappings end before the position
  covered      [300, 1000)                  position 1000     where copying began, 0 to 300, is missing
```

Commit records tell where copying began. Ranges that `index.retention` pruned are not missing. If no mapping record was
ever lost, a missing beginning was copied while mapping was off, or lies before a time when it was off and after which
the records went elsewhere: the index is right, but positions there have no answer, so the verdict is doubtful.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.index.manifest import Lost, NotedPosition, Pruned
from k2k_assets.verification.verdict import Offender, Verdict, verdict


class CoveredRow(NamedTuple):
    """A covered range of a source partition of the present source cluster."""

    topic: str
    source_topic_id: str
    partition: int
    start: int
    end: int


def check_coverage(
    covered: Iterable[CoveredRow],
    positions: Iterable[NotedPosition],
    positions_now: Mapping[TopicPartition, int],
    lost: Iterable[Lost],
    pruned: Iterable[Pruned] = (),
) -> Verdict:
    """Compares the covered ranges with the committed positions.

    Args:
        covered: All covered ranges of the index.
        positions: Positions from before the index was read; their mappings must be in it.
        positions_now: Present positions; copying may have gone on.
        lost: Mapping records that retention removed before they were read.
        pruned: Notes of what `index.retention` has removed.
    """
    positions = list(positions)
    ranges: dict[tuple[TopicPartition, str], list[Covered]] = defaultdict(list)
    for row in covered:
        ranges[TopicPartition(row.topic, row.partition), row.source_topic_id].append(Covered(row.start, row.end))
    let_go = {(TopicPartition(p.topic, p.partition), p.source_topic_id): p.before for p in pruned}
    offenders: list[Offender] = []
    beginnings: list[Offender] = []
    counts = {"partitions": 0, "nothing_copied": 0, "positions_covered": 0, "pruned_partitions": len(let_go)}
    for position in positions:
        tp = TopicPartition(position.topic, position.partition)
        counts["partitions"] += 1
        known = sorted(ranges.get((tp, position.source_topic_id), []))
        if not known and _nothing_copied(position):
            counts["nothing_copied"] += 1
            continue
        beginnings += _beginning(tp, known, position.began, let_go.get((tp, position.source_topic_id)))
        counts["positions_covered"] += sum(c.end - c.start for c in known)
        offenders.extend(_faults(tp, known, position.position, positions_now.get(tp, position.position)))
    offenders.extend(_without_position({tp for tp, _ in ranges}, positions_now))
    gone = list(lost)
    counts["lost_mapping_ranges"] = len(gone)
    counts["beginnings_missing"] = len(beginnings)
    if gone:
        offenders += beginnings
    unsure = [f"{p.topic}-{p.partition}" for p in positions if p.began is None]
    half_built = sorted({tp for tp, _ in ranges} - {TopicPartition(p.topic, p.partition) for p in positions})
    good = f"all positions of {plural(counts['partitions'], 'partition')} are answered for"
    return verdict(offenders, len(offenders), good, counts, _doubt(gone, unsure, beginnings, half_built))


def _nothing_copied(position: NotedPosition) -> bool:
    return position.records == 0 if position.began is None else position.position == position.began


def _beginning(tp: TopicPartition, covered: list[Covered], began: int | None, let_go: int | None) -> list[Offender]:
    if began is None or not covered:
        return []
    start = began if let_go is None else max(began, let_go)
    first = covered[0].start
    return (
        [_offender(tp, start, f"has no mapping from {start}, where copying began, to {first}")] if first > start else []
    )


def _faults(tp: TopicPartition, covered: list[Covered], then: int, now: int) -> list[Offender]:
    if not covered:
        return [_offender(tp, then, f"is committed at {then}, but nothing of it is mapped")]
    faults = [
        _offender(tp, one.end, f"has no mapping from {one.end} to {other.start}")
        for one, other in pairwise(covered)
        if one.end < other.start
    ]
    faults += [
        _offender(tp, other.start, f"is mapped twice from {other.start} to {one.end}")
        for one, other in pairwise(covered)
        if one.end > other.start
    ]
    end = covered[-1].end
    if end < min(then, now):  # it may have been set back by hand while the index was built
        faults.append(_offender(tp, end, f"is mapped up to {end}, but committed at {then}"))
    elif end > max(now, then):
        faults.append(_offender(tp, end, f"is mapped up to {end}, but committed only at {now}"))
    return faults


def _without_position(mapped: set[TopicPartition], positions_now: Mapping[TopicPartition, int]) -> list[Offender]:
    return [
        _offender(tp, None, "is mapped, but has no committed position") for tp in sorted(mapped - set(positions_now))
    ]


def _doubt(
    lost: list[Lost], unsure: list[str], beginnings: list[Offender], half_built: list[TopicPartition]
) -> str | None:
    if half_built:
        return (
            f"the index was not built to its end: nothing tells how far {half_built[0]} should be mapped. Materialize "
            "offset_mappings"
        )
    if lost and unsure:
        first = lost[0]
        return (
            f"retention removed mapping records before they were indexed, first those of mapping partition "
            f"{first.partition} from {first.start} to {first.end}: what is known has no hole, but where copying of "
            f"{', '.join(unsure[:3])} began is not certain. Set the mapping topic's retention.ms to -1"
        )
    if beginnings:
        return (
            f"in {plural(len(beginnings), 'partition')} mappings do not answer for what was copied first, because they "
            f"were off then, or later for a while: positions there are unknown. First, {beginnings[0].what}"
        )
    return None


def _offender(tp: TopicPartition, offset: int | None, what: str) -> Offender:
    return Offender(f"{tp} {what}", tp.topic, tp.partition, offset)
