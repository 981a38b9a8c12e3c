"""Positions where both sides are written: translated by the mappings of both directions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np

from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, Offsets, PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.reverse import FirstUnread, LogHere, first_unread
from k2k_assets.mapping.algebra.translate import NO_OFFSET, TranslationState

# Of a transaction, in a partition that it has written to.
_MARKER = 1


@dataclass(frozen=True, slots=True)
class OtherWay:
    """The mappings of the reverse pipeline, where records are written on the target as well.

    Attributes:
        map_of: Returns the map of a target partition, which is copied to the source; None if it is not known.
        is_exactly_once: Whether all copies of a target partition on the source are mapped, each once.
        shared: The source partitions whose target partitions others write to; None: all of them.
    """

    map_of: Callable[[Target], PartitionMap | None]
    is_exactly_once: Callable[[Target], bool]
    shared: Collection[SourcePartition] | None = None

    def concerns(self, source: SourcePartition) -> bool:
        """Whether others write to the target partition of a source partition."""
        return self.shared is None or source in self.shared

    def first_unread_back(
        self,
        mapping: PartitionMap,
        target: Target,
        positions: Offsets,
        log: tuple[int, int],
        target_end: int | None,
        repeats: bool,
    ) -> FirstUnread:
        """Translates positions on the target to the first record on the source that is not read.

        Args:
            mapping: Map of the source partition, which goes to this target partition alone.
            target: The target partition.
            positions: Next offsets to read on the target, which were read before the mappings.
            log: Log start of the source partition, and its last stable offset at the cut of the reverse mappings.
            target_end: End of the target partition, read after the mappings; None if not known.
            repeats: Whether the target may hold copies that are not mapped.
        """
        reverse, is_exactly_once = self.map_of(target), self.is_exactly_once(target)
        if reverse is None or (target_end is None and not is_exactly_once):
            return unproven(len(positions))
        sides = mapping, target, reverse, _source(mapping)
        end = None if is_exactly_once else target_end
        return first_unread_back(*sides, positions, LogHere(*log, end, repeats))

    def first_unread(
        self, mapping: PartitionMap, target: Target, positions: Offsets, log: tuple[int, int], source_end: int | None
    ) -> FirstUnread:
        """Translates positions on the source to the first record on the target that is not read.

        Args:
            mapping: Map of the source partition, which goes to this target partition alone.
            target: The target partition.
            positions: Next offsets to read on the source, which were read before the mappings.
            log: Log start of the target partition, and its last stable offset at the cut of `mapping`.
            source_end: At-least-once: end of the source partition. None with exactly-once.
        """
        reverse = self.map_of(target)
        if reverse is None:
            return unproven(len(positions))
        here = LogHere(*log, source_end, repeats=not self.is_exactly_once(target))
        return first_unread(reverse, _source(mapping), mapping, target, positions, here)


def first_unread_back(
    mapping: PartitionMap, target: Target, reverse: PartitionMap, source: Target, positions: Offsets, log: LogHere
) -> FirstUnread:
    """The first record on the source, be it an own one or a copy, that is not read on the target.

    Args:
        mapping: Map of the source partition.
        target: The target partition, to which it is copied.
        reverse: Map of the target partition, which is copied back.
        source: The source partition.
        positions: Next offsets to read on the target.
        log: The source partition's log.
    """
    # Records that were on the source before copying began, or were skipped, were read there before the group left, or
    # never.
    known = replace(mapping, log_start=mapping.began, skipped=())
    plain = first_unread(known, target, reverse, source, positions, log)
    # Copies of another tool, which were adopted, `mapping` does not cover.
    if not reverse.began_late or reverse.target_began is not None:
        return plain
    # The reverse pipeline may have begun behind copies that came from here, which `mapping` covers.
    began = reverse.began or 0
    begun = first_unread(known, target, replace(reverse, log_start=began), source, positions, log)
    runs = mapping.runs.get(target, NO_RUNS)
    is_copied = positions >= _copied_from(runs, began, 0 if log.repeats else _MARKER)
    return FirstUnread(
        np.where(is_copied, begun.offsets, plain.offsets),
        np.where(is_copied, begun.states, plain.states),
        np.where(is_copied, begun.again, plain.again),
    )


def _copied_from(runs: RunTable, began: int, marker: int) -> int:
    """The target offset from which on, up to where the reverse pipeline began, there are copies and markers only."""
    ends = (runs.target_starts + runs.counts)[runs.target_starts < began]
    if not len(ends):
        return began
    after = np.append(runs.target_starts[1 : len(ends)], began)
    others = np.flatnonzero(after - ends > marker)
    return int(after[others[-1]] if len(others) else runs.target_starts[0])


def _source(mapping: PartitionMap) -> Target:
    return Target(mapping.source.topic, mapping.source.topic_id, mapping.source.partition)


def unproven(count: int) -> FirstUnread:
    """Answers for positions of which the mappings prove nothing."""
    states = np.full(count, TranslationState.UNKNOWN, dtype=np.uint8)
    return FirstUnread(np.full(count, NO_OFFSET, dtype=np.int64), states, np.zeros(count, dtype=np.int64))
