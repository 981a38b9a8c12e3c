"""Plans the return of groups that have consumed on the target: where they continue on the source. Pure.

```
 source   0  1  2  3  .  .  6  7  8        a group left the source at 2, and stands at 12 on the target:
 target   5  6  7  8  |  10 11 12          it has read 2 to 7 there, and continues at 8
```

The plan uses the same table of runs as the translation to the target. A row is `kept` if the group's position on the
source and its commit on the target mean the same, because no record lies between them.

With a reverse pipeline (target to source) the source partition also holds copies of records that were written on the
target. Then a group continues at the first record that it has not read, be it an own record or a copy. That is known
where one partition is copied to one, both ways; where records of several partitions lie mixed, it is unknown. What it
reads again there, because the two logs order records differently, is counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from k2k_assets.control.group_versions import parse
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.groups import CommittedOffset, Ends, GroupOffsets
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap
from k2k_assets.mapping.algebra.reverse import LogHere
from k2k_assets.mapping.algebra.spread import combine_back
from k2k_assets.mapping.algebra.translate import NO_OFFSET, TranslationState, may_repeat, translate, translate_back
from k2k_assets.pipeline.sections.routing import Routing
from k2k_assets.translation.groups import CopiedAtCut, feeding
from k2k_assets.translation.log_ends import NOT_KNOWN, is_of_former_log
from k2k_assets.translation.other_way import first_unread_back

_UNREAD = CommittedOffset(0)

WholeMapOf = Callable[[TopicPartition], PartitionMap]
"""Returns the map of a source partition."""


class FailbackDecision(StrEnum):
    """The decision on a group's return to one source partition."""

    EXACT = "exact"
    MAY_REPEAT = "may be read again"  # the group (at least once: possibly) reads records again, see `BackRow.again`
    AHEAD = "ahead"  # the group stands behind the mappings on the target: it continues after the last mapped record
    EXPIRED = "expired"  # the record was deleted on the source: the group continues at the log start
    KEPT = "kept"  # the position on the source means the same already
    TRANSLATION = "translation"  # the target has only our own commits: the group has read nothing there
    UNKNOWN = "unknown"
    NOT_REPLICATED = "not replicated"


@dataclass(frozen=True, slots=True)
class Pipe:
    """The mappings of one pipeline.

    Attributes:
        map_of: Returns the map of a partition in `copied.positions`.
        routing: Routing of the pipeline.
        copied: The copied partitions at a cut; `ends` and `topic_ids` are those of the cluster that it copies to.
        at_least_once: Partitions that are copied at least once, or were: some copies may lie there twice, and no
            mapping record answers for them. Each with `CommitRecord.repeats_below`.
    """

    map_of: WholeMapOf
    routing: Routing
    copied: CopiedAtCut
    at_least_once: Mapping[TopicPartition, int] = field(default_factory=dict)

    def target(self, partition: TopicPartition) -> Target:
        """A target partition with today's topic id."""
        return Target(partition.topic, self.copied.topic_ids.get(partition.topic, ""), partition.partition)


class BackRow(NamedTuple):
    """A group's return to one source partition.

    Attributes:
        source: The source partition.
        targets: The group's commits in the target partitions that the source partition was copied to.
        on_source: The group's commit on the source; None if there is none.
        offset: The offset at which the group continues; -1 if it is not known.
        decision: The decision.
        commit: Whether to write `offset` to the source.
        again: Number of records that the group reads again, as far as the mappings tell: where both sides are written.
    """

    source: TopicPartition
    targets: tuple[tuple[TopicPartition, CommittedOffset], ...]
    on_source: CommittedOffset | None
    offset: int
    decision: FailbackDecision
    commit: bool
    again: int = 0

    @property
    def leads(self) -> bool:
        """Whether the group goes back to the source partition, to a new position or to the one that it has there."""
        return self.commit or self.decision is FailbackDecision.KEPT


class FailbackPlan(NamedTuple):
    """The return of one group.

    Attributes:
        group: Name of the group.
        rows: One for each source partition, in their order.
    """

    group: str
    rows: list[BackRow]

    @property
    def commits(self) -> dict[TopicPartition, int]:
        """The offsets to write on the source."""
        return {row.source: row.offset for row in self.rows if row.commit}

    @property
    def returned(self) -> dict[TopicPartition, int]:
        """The target partitions that the group leaves, with its positions there."""
        return {target: committed.offset for target, committed in self.leaves.items()}

    @property
    def leaves(self) -> dict[TopicPartition, CommittedOffset]:
        """The target partitions that the group leaves, with its commits there."""
        return {target: committed for row in self.rows if row.leads for target, committed in row.targets}


def plan_failback(
    on_target: Mapping[str, GroupOffsets],
    on_source: Mapping[str, GroupOffsets],
    pipe: Pipe,
    source_ends: Mapping[TopicPartition, Ends],
    prefix: str,
    reverse: Pipe | None = None,
    target_logs: Mapping[TopicPartition, int] | None = None,
    offline_partitions: Collection[TopicPartition] = (),
    shared: Collection[TopicPartition] = (),
) -> list[FailbackPlan]:
    """Plans the return of groups to the source.

    Args:
        on_target: The groups' stable commits on the target.
        on_source: The groups' stable commits on the source; groups that do not exist there may be left out.
        pipe: The pipeline from source to target.
        source_ends: Ends of the source partitions; nothing is written to a partition without them.
        prefix: `groups.offsetGuardPrefix`: commits on the target whose metadata carry it are translations.
        reverse: The pipeline from target to source, if there is one.
        target_logs: High watermark of each target partition, read after the positions. A position beyond it belongs to
            a former log, so it is not known what was read. None: no such check.
        offline_partitions: Source partitions of which nothing is known: they have no leader, or a third cluster is
            copied to them too.
        shared: Source partitions whose target partitions are written by others too, so that nothing is known of them
            without `reverse`.

    Returns:
        One plan for each group with a commit in a target partition, by name.
    """
    fed: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
    on_any = {**pipe.copied.ends, **{tp: Ends(0, 0) for tp in pipe.copied.offline_partitions}}
    for targets, sources in feeding(pipe.copied.positions, pipe.routing, on_any):
        for source in sources:
            fed[source] += targets
    fed_by = Counter(target for targets in fed.values() for target in targets)
    into: dict[str, set[TopicPartition]] = defaultdict(set)
    for source, targets in fed.items():
        for target in targets:
            into[target.topic].add(source)
    planner = _Planner(pipe, source_ends, prefix, reverse, target_logs or {}, fed_by, offline_partitions, shared)
    plans = []
    for name, group in sorted(on_target.items()):
        stands = on_source.get(name, GroupOffsets(name, {}))
        # A group reads few of all topics, and of the others nothing is looked up.
        read = {tp.topic for tp in (*group.offsets, *group.unstable)}
        sources = sorted(set().union(*(into.get(topic, ()) for topic in read)))
        rows = [row for source in sources if (row := planner.row(source, fed[source], group, stands))]
        if rows:
            plans.append(FailbackPlan(name, rows))
    return plans


def _former(pipe: Pipe, source: TopicPartition, targets: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Other partitions of its target topic that a source partition was copied to."""
    topics = {(tp.topic, pipe.target(tp).topic_id) for tp in targets}
    went_to = {
        TopicPartition(target.topic, target.partition)
        for target, runs in pipe.map_of(source).runs.items()
        if (target.topic, target.topic_id) in topics and len(runs)
    }
    return sorted(went_to.difference(targets))


def _may_go_to(routing: Routing, copied: TopicPartition, to: TopicPartition) -> bool:
    same_topic = routing.target_if_any(copied.topic) == to.topic
    return same_topic and (not routing.keeps_partition(copied.topic) or copied.partition == to.partition)


@dataclass(slots=True)
class _Planner:
    pipe: Pipe
    source_ends: Mapping[TopicPartition, Ends]
    prefix: str
    reverse: Pipe | None
    target_logs: Mapping[TopicPartition, int]
    fed_by: Mapping[TopicPartition, int]
    offline_partitions: Collection[TopicPartition]
    shared: Collection[TopicPartition] = ()
    _back_to: dict[TopicPartition, tuple[Set[Target], bool]] | None = None
    _went_to: dict[TopicPartition, list[TopicPartition]] = field(default_factory=dict)

    def row(
        self, source: TopicPartition, today: Sequence[TopicPartition], group: GroupOffsets, stands: GroupOffsets
    ) -> BackRow | None:
        topics = {target.topic for target in today}
        targets = self._with_former(source, today)
        found = tuple((target, group.offsets[target]) for target in targets if target in group.offsets)
        unstable = not group.unstable.isdisjoint(targets) or source in stands.unstable
        if not found and not unstable:
            return None
        on_source = stands.offsets.get(source)
        if unstable:
            return BackRow(source, found, on_source, NO_OFFSET, FailbackDecision.UNKNOWN, False)
        if all(parse(committed.metadata, self.prefix) for _, committed in found):
            return BackRow(source, found, on_source, NO_OFFSET, FailbackDecision.TRANSLATION, False)
        is_former = is_of_former_log(on_source, self.pipe.copied.read_to.get(source, {}))
        # Of what it has read of a former log nobody knows whether today's log has it.
        read = _UNREAD if is_former else on_source
        if self._is_unread_elsewhere(source, topics, group, read):
            return BackRow(source, found, on_source, NO_OFFSET, FailbackDecision.UNKNOWN, False)
        offset, word, again = self._place(source, targets, dict(found))
        if (
            offset >= 0
            and on_source
            and not is_former
            and word is not FailbackDecision.MAY_REPEAT
            and on_source.offset <= self._log_end(source, on_source.offset)
            and self._same(source, targets, on_source.offset, offset)
        ):
            return BackRow(source, found, on_source, on_source.offset, FailbackDecision.KEPT, False)
        if read and self._is_on_neither(source, read.offset, offset):
            return BackRow(source, found, on_source, NO_OFFSET, FailbackDecision.UNKNOWN, False)
        return BackRow(source, found, on_source, offset, word, offset >= 0, again)

    def _with_former(self, source: TopicPartition, today: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Today's target partitions, and those of the same topic that a former routing copied the partition to."""
        if source not in self._went_to:
            self._went_to[source] = [*today, *_former(self.pipe, source, today)]
        return self._went_to[source]

    def _is_unread_elsewhere(
        self, source: TopicPartition, topics: Collection[str], group: GroupOffsets, on_source: CommittedOffset | None
    ) -> bool:
        """Whether a group has not read all that went to other topics, or to a former topic of today's name.

        That is where an earlier routing copied to, or what was deleted and created anew. As long as the source has
        these records, and the group has not read them there, its position in today's topic tells nothing about them.
        """
        reads = {tp.topic for tp in (*group.offsets, *group.unstable)}
        log_start = self.source_ends[source].start if source in self.source_ends else 0
        left_at = max(log_start, on_source.offset if on_source else 0)
        for target, runs in self.pipe.map_of(source).runs.items():
            at = TopicPartition(target.topic, target.partition)
            if at.topic not in reads or not len(runs) or left_at >= runs.source_end:
                continue
            if at.topic in topics:
                is_read = target == self.pipe.target(
                    at
                )  # as far as its position there says; of a former topic none is left
            else:
                is_read = group.offsets.get(at, _UNREAD).offset >= runs.target_end
            if not is_read:
                return True
        return False

    def _is_on_neither(self, source: TopicPartition, left_at: int, offset: int) -> bool:
        """Whether a group would pass records that it has not read on the source and that are not on the target.

        Copying began behind them, or they were skipped by hand.
        """
        mapping = self.pipe.map_of(source)
        is_adopted = mapping.target_began is not None  # what lies below was copied by another tool
        if mapping.began_late and not is_adopted and left_at < min(mapping.began or 0, offset):
            return True
        unread = max(left_at, self.source_ends[source].start) if source in self.source_ends else left_at
        return any(max(gap.start, unread) < min(gap.end, offset) for gap in mapping.skipped)

    def _place(
        self, source: TopicPartition, targets: Sequence[TopicPartition], found: Mapping[TopicPartition, CommittedOffset]
    ) -> tuple[int, FailbackDecision, int]:
        ends = self.source_ends.get(source)
        if source in self.offline_partitions or not self.pipe.copied.offline_partitions.keys().isdisjoint(targets):
            return NO_OFFSET, FailbackDecision.UNKNOWN, 0
        if ends is None or not all(target in self.pipe.copied.ends for target in targets):
            return NO_OFFSET, FailbackDecision.NOT_REPLICATED, 0
        if any(committed.offset > self.target_logs.get(tp, committed.offset) for tp, committed in found.items()):
            return NO_OFFSET, FailbackDecision.UNKNOWN, 0
        if self._log_end(source, 0) == NOT_KNOWN:
            return NO_OFFSET, FailbackDecision.UNKNOWN, 0
        offset, state, again = self._back(source, targets, found)
        if offset < 0:
            is_unknown = state is TranslationState.UNKNOWN
            return NO_OFFSET, FailbackDecision.UNKNOWN if is_unknown else FailbackDecision.NOT_REPLICATED, 0
        # Behind it lie other records than were copied, which nobody has read on the target.
        offset = min(offset, self._log_end(source, offset))
        if offset < ends.start:
            return ends.start, FailbackDecision.EXPIRED, again
        if state is TranslationState.AHEAD:
            return min(offset, ends.end), FailbackDecision.AHEAD, again
        repeats = state is TranslationState.MAY_REPEAT
        return min(offset, ends.end), FailbackDecision.MAY_REPEAT if repeats else FailbackDecision.EXACT, again

    def _log_end(self, source: TopicPartition, otherwise: int) -> int:
        """Up to where the source's log is the one that was copied, or `NOT_KNOWN`; `otherwise` if nobody asked."""
        logs = self.pipe.copied.source_logs
        return otherwise if logs is None else logs.get(source, NOT_KNOWN)

    def _back(
        self, source: TopicPartition, targets: Sequence[TopicPartition], found: Mapping[TopicPartition, CommittedOffset]
    ) -> tuple[int, TranslationState, int]:
        mapping = self.pipe.map_of(source)
        copied_back = self._copied_back(source)
        if copied_back and (len(targets) > 1 or copied_back != set(targets)):
            return NO_OFFSET, TranslationState.UNKNOWN, 0
        if source in self.shared and not copied_back and not all(self._is_copied_back(tp, source) for tp in targets):
            return NO_OFFSET, TranslationState.UNKNOWN, 0
        if len(targets) > 1:
            read_to = {self.pipe.target(target): found[target].offset if target in found else 0 for target in targets}
            offset, state = combine_back(mapping, read_to)
        else:
            (target,) = targets
            position = found[target].offset
            if self.reverse and (copied_back or self._is_copied_back(target, source)):
                return self._both_ways(self.reverse, source, target, position)
            mapped_to = self.pipe.copied.ends[target].end
            back = translate_back(mapping, self.pipe.target(target), np.array([position]), mapped_to)
            offset, state = int(back.offsets[0]), TranslationState(int(back.states[0]))
        if state is TranslationState.EXACT and self._may_repeat(source, found):
            state = TranslationState.MAY_REPEAT
        return offset, state, 0

    def _both_ways(
        self, reverse: Pipe, source: TopicPartition, target: TopicPartition, position: int
    ) -> tuple[int, TranslationState, int]:
        """The first record on the source, be it an own one or a copy, that a group has not read on the target."""
        here = reverse.copied.ends.get(source)
        if here is None:
            return NO_OFFSET, TranslationState.UNKNOWN, 0
        mapping, other = self.pipe.map_of(source), reverse.map_of(target)
        end = reverse.copied.source_ends.get(target)
        log = LogHere(here.start, here.end, end, source in self.pipe.at_least_once)
        sides = mapping, self.pipe.target(target), other, reverse.target(source)
        unread = first_unread_back(*sides, np.array([position]), log)
        return int(unread.offsets[0]), TranslationState(int(unread.states[0])), int(unread.again[0])

    def _is_copied_back(self, target: TopicPartition, source: TopicPartition) -> bool:
        """Whether the reverse pipeline copies a target partition to the source partition, though nothing came yet."""
        reverse = self.reverse
        if reverse is None or target not in reverse.copied.positions or not _may_go_to(reverse.routing, target, source):
            return False
        return reverse.routing.keeps_partition(target.topic) and bool(reverse.map_of(target).covered)

    def _copied_back(self, source: TopicPartition) -> set[TopicPartition]:
        """The target partitions of which a source partition holds copies, or may hold unmapped copies."""
        if self.reverse is None:
            return set()
        if self._back_to is None:
            maps = ((tp, self.reverse.map_of(tp)) for tp in self.reverse.copied.positions)
            self._back_to = {tp: (frozenset(mapping.runs), mapping.is_whole) for tp, mapping in maps}
        here = self.reverse.target(source)
        return {
            tp
            for tp, (went_to, is_whole) in self._back_to.items()
            if here in went_to or (not is_whole and _may_go_to(self.reverse.routing, tp, source))
        }

    def _may_repeat(self, source: TopicPartition, found: Mapping[TopicPartition, CommittedOffset]) -> bool:
        below = self.pipe.at_least_once.get(source)
        if below is None:
            return False  # always exactly once: all readable records are mapped
        if any(self.fed_by[target] != 1 for target in found):
            return False  # the gaps hold records of other sources
        mapping = self.pipe.map_of(source)
        return any(
            bool(may_repeat(mapping, self.pipe.target(target), np.array([committed.offset]), below)[0])
            for target, committed in found.items()
        )

    def _same(self, source: TopicPartition, targets: Collection[TopicPartition], on_source: int, offset: int) -> bool:
        """Whether no copied record, in either direction, lies between two positions on the source."""
        if on_source == offset:
            return True
        mapping = self.pipe.map_of(source)
        for target in targets:
            both = translate(mapping, self.pipe.target(target), np.array([on_source, offset]), floor=0)
            if both.offsets[0] != both.offsets[1] or both.states.max() > TranslationState.AHEAD:
                return False
            if self.reverse and target in self.reverse.copied.positions:
                runs = self.reverse.map_of(target).runs.get(self.reverse.target(source))
                low, high = sorted((on_source, offset))
                if runs is not None and ((runs.target_starts < high) & (runs.target_starts + runs.counts > low)).any():
                    return False
        return True
