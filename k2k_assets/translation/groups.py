"""Translates the positions of many groups at once. Pure: mappings and positions in, answers out.

The positions of all groups in one source partition are looked up together, so that a look-up costs next to nothing.

A group with a commit in one partition of a topic, be it a pending one, reads the whole topic: where several source
partitions feed one target partition, those without a commit count as unread. It does not read topics without any
commit.

A target partition may hold records of source partitions that fed it by a former routing. For a group that has not read
all of these yet, the answer is unknown.

Where records are written on the target as well (`OtherWay`), the mappings of both directions answer, partition by
partition; where several source partitions feed a target partition there, the answer is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from k2k_assets.control.group_versions import parse
from k2k_assets.core.bulk import without_cycle_collection
from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS, TopicPartition
from k2k_assets.kafka.groups import CommittedOffset, Ends, GroupOffsets
from k2k_assets.mapping.algebra.cut import Feed, combine
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, Offsets, PartitionMap
from k2k_assets.mapping.algebra.translate import NO_OFFSET, Translated, TranslationState, translate, unknown_where
from k2k_assets.pipeline.sections.routing import Routing
from k2k_assets.translation.log_ends import is_of_former_log, of_another_log
from k2k_assets.translation.other_way import OtherWay

MapOf = Callable[[TopicPartition, int, int], PartitionMap]
"""Returns the map of a source partition for look-ups between two positions: partition, lowest, highest."""

_NOWHERE = Ends(0, 0)
_STATES = {int(state): state for state in TranslationState}


class Answer(NamedTuple):
    """A group's translated position in one target partition.

    Attributes:
        target: The target partition.
        offset: The translated position; -1 if there is none.
        state: State of the translation.
        sources: The source partitions that it is translated from (one for most routings), each with the group's commit.
        translated: Whether one of these commits has a version, and so is a translation itself.
        again: Number of records that the group reads again, as far as the mappings tell; only where records are written
            on the target as well.
    """

    target: TopicPartition
    offset: int
    state: TranslationState
    sources: tuple[tuple[TopicPartition, CommittedOffset], ...]
    translated: bool = False
    again: int = 0


@dataclass(frozen=True, slots=True)
class CopiedAtCut:
    """The copied partitions at a cut (`mapping/algebra/cut.py`).

    Attributes:
        positions: Committed position of each copied source partition, for today's topic ids.
        ends: Log start and last stable offset of each target partition.
        topic_ids: Ids of the target topics; runs into other ids are never used.
        source_ends: Ends of the source partitions that are copied at least once.
        source_logs: Up to where each source partition is the one that was copied (`SourceLogs.ends`), read after the
            positions. A position beyond it belongs to another log (cut off, or created anew), and has no translation;
            none has one where it is `NOT_KNOWN`.
            None: no such check. Partitions without a leader are missing and not checked, unless they were cut off once.
        offline_partitions: Target partitions without a leader, with the reason; positions in them are unknown.
        read_to: Where groups have read another log, by the leader epochs of their commits (`LogEnds.read_to`): whatever
            was copied since, a position beyond has no translation.
    """

    positions: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, Ends]
    topic_ids: Mapping[str, str]
    source_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    source_logs: Mapping[TopicPartition, int] | None = None
    offline_partitions: Mapping[TopicPartition, str] = field(default_factory=dict)
    read_to: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)


@without_cycle_collection()
def translate_groups(
    groups: Mapping[str, GroupOffsets],
    map_of: MapOf,
    routing: Routing,
    copied: CopiedAtCut,
    prefix: str,
    other_way: OtherWay | None = None,
) -> dict[str, list[Answer]]:
    """Translates the positions of groups to each target partition.

    Args:
        groups: Positions on the source, in mapped topics only.
        map_of: Returns the map of a partition in `copied.positions`.
        routing: Routing of the pipeline.
        copied: The copied partitions.
        prefix: `groups.offsetGuardPrefix`: commits whose metadata carry it are translations themselves.
        other_way: The mappings of the reverse pipeline, read after the cut; None if nobody writes on the target.

    Returns:
        Answers by group, in the order of the target partitions; groups without any answer are left out.
    """
    return _Translation(groups, map_of, routing, copied, prefix, other_way).answers()


@dataclass(slots=True)
class _Translation:
    groups: Mapping[str, GroupOffsets]
    map_of: MapOf
    routing: Routing
    copied: CopiedAtCut
    prefix: str
    other_way: OtherWay | None = None
    _standing: dict[TopicPartition, list[tuple[str, CommittedOffset]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _topics: dict[str, set[str]] = field(default_factory=dict)
    _is_ours: dict[str, bool] = field(default_factory=dict)

    def answers(self) -> dict[str, list[Answer]]:
        for name, group in self.groups.items():
            self._topics[name] = {tp.topic for tp in (*group.offsets, *group.unstable)}
            for source, committed in group.offsets.items():
                self._standing[source].append((name, committed))
        found: dict[str, list[Answer]] = defaultdict(list)
        targets_of_all = {**self.copied.ends, **dict.fromkeys(self.copied.offline_partitions, _NOWHERE)}
        fed = list(feeding({*self.copied.positions, *self._standing}, self.routing, targets_of_all))
        left = self._left_by_others(fed)
        for targets, sources in fed:
            alone = len(sources) == 1 and len(targets) == 1
            for name, answer in self._alone(sources[0], targets[0]) if alone else self._shared(sources, targets):
                is_hidden = not all(self._has_read(name, *each) for each in left.get(answer.target, ()))
                found[name].append(
                    answer._replace(offset=NO_OFFSET, state=TranslationState.UNKNOWN, again=0) if is_hidden else answer
                )
        return {name: sorted(answers, key=lambda answer: answer.target) for name, answers in found.items()}

    def _left_by_others(
        self, fed: Iterable[tuple[Sequence[TopicPartition], Sequence[TopicPartition]]]
    ) -> dict[TopicPartition, list[tuple[TopicPartition, int]]]:
        """Source partitions that were copied to target partitions, and that are routed elsewhere today.

        Returns:
            By target partition: such source partitions, with the source offset up to which records may lie there.
        """
        today = {(source, target) for targets, sources in fed for source in sources for target in targets}
        topics = set().union(*self._topics.values())
        left: dict[TopicPartition, list[tuple[TopicPartition, int]]] = defaultdict(list)
        for source in (source for source in self.copied.positions if source.topic in topics):
            for target, runs in self.map_of(source, BEYOND_ALL_LOGS, BEYOND_ALL_LOGS).runs.items():
                at = TopicPartition(target.topic, target.partition)
                if (source, at) in today or at not in self.copied.ends or target != self._identified(at):
                    continue
                if len(runs) and runs.target_end > self.copied.ends[at].start:
                    left[at].append((source, self._left_to(source, target)))
        return left

    def _left_to(self, source: TopicPartition, target: Target) -> int:
        """Source offset after the last record that may lie in a target partition, be it in a gap of the coverage."""
        lowest = min((committed.offset for _, committed in self._standing.get(source, ())), default=BEYOND_ALL_LOGS)
        mapping = self.map_of(source, lowest, BEYOND_ALL_LOGS)
        runs = mapping.runs.get(target, NO_RUNS)
        end = runs.source_end if len(runs) else 0
        return max((start for start, _ in mapping.covered if start > end), default=end)

    def _has_read(self, name: str, source: TopicPartition, end: int) -> bool:
        """Whether a group has read a source partition up to an offset, or does not read its topic at all."""
        committed = self.groups[name].offsets.get(source)
        if committed is None:
            return source.topic not in self._topics[name]
        return committed.offset >= end and not is_of_former_log(committed, self.copied.read_to.get(source, {}))

    def _alone(self, source: TopicPartition, target: TopicPartition) -> Iterator[tuple[str, Answer]]:
        """Translates positions into a target partition that only one source partition feeds."""
        standing = self._standing.get(source)
        if not standing:
            return
        translated, again = self._translated(source, target, [committed for _, committed in standing])
        rows = zip(standing, translated.offsets.tolist(), translated.states.tolist(), again.tolist(), strict=True)
        for (name, committed), offset, state, count in rows:
            sources = ((source, committed),)
            yield name, Answer(target, offset, _STATES[state], sources, self._ours(committed), count)

    def _translated(
        self, source: TopicPartition, target: TopicPartition, commits: Sequence[CommittedOffset]
    ) -> tuple[Translated, NDArray[np.int64]]:
        """The positions, and how many records are read again from each on."""
        positions = np.array([committed.offset for committed in commits], dtype=np.int64)
        mapping, ends = self._map(source, positions), self.copied.ends.get(target)
        again = np.zeros(len(positions), dtype=np.int64)
        if target in self.copied.offline_partitions:
            return _unknown(len(positions)), again
        if mapping is None or ends is None:
            return _not_replicated(len(positions)), again
        if self.other_way is None or not self.other_way.concerns(mapping.source):
            found = translate(mapping, self._identified(target), positions, ends.start, alone=True, log_end=ends.end)
        else:
            source_end = self.copied.source_ends.get(source)
            unread = self.other_way.first_unread(mapping, self._identified(target), positions, ends, source_end)
            found, again = Translated(unread.offsets, unread.states), unread.again
        other_log = self._of_another_log(source, positions, commits)
        return unknown_where(other_log, found), np.where(other_log, 0, again)

    def _of_another_log(
        self, source: TopicPartition, positions: Offsets, commits: Iterable[CommittedOffset | None]
    ) -> NDArray[np.bool_]:
        beyond = of_another_log(positions, (self.copied.source_logs or {}).get(source))
        if not (read_to := self.copied.read_to.get(source)):
            return beyond
        return beyond | np.array([is_of_former_log(committed, read_to) for committed in commits], dtype=np.bool_)

    def _shared(
        self, sources: Sequence[TopicPartition], targets: Sequence[TopicPartition]
    ) -> Iterator[tuple[str, Answer]]:
        """Translates positions if several source partitions feed a target partition, or one is spread over several."""
        standing = {name for source in sources for name, _ in self._standing.get(source, ())}
        names = sorted(name for name in standing if self.groups[name].unstable.isdisjoint(sources))
        if not names:
            return
        commits = [self._commits(name, sources) for name in names]
        positions = [self._positions(source, names) for source in sources]
        ours = [any(self._ours(committed) for _, committed in own) for own in commits]
        maps = [self._map(source, at) for source, at in zip(sources, positions, strict=True)]
        triples = zip(sources, positions, maps, strict=True)
        positions = [self._begun(source, at, mapping, names) for source, at, mapping in triples]
        other_logs = np.any(
            [
                self._of_another_log(source, at, (self.groups[name].offsets.get(source) for name in names))
                for source, at in zip(sources, positions, strict=True)
            ],
            axis=0,
        )
        for target in targets:
            feeds = [
                self._feed(mapping, source, target, at, alone=len(targets) == 1)
                for mapping, source, at in zip(maps, sources, positions, strict=True)
                if mapping is not None
            ]
            ends, combined = self.copied.ends.get(target), _not_replicated(len(names))
            two_ways = self.other_way and any(mapping and self.other_way.concerns(mapping.source) for mapping in maps)
            if two_ways or target in self.copied.offline_partitions:
                combined = _unknown(len(names))
            elif feeds and ends:
                combined = unknown_where(other_logs, combine(self._identified(target), feeds, ends.end))
            rows = zip(names, combined.offsets.tolist(), combined.states.tolist(), commits, ours, strict=True)
            for name, offset, state, own, translated in rows:
                yield name, Answer(target, offset, _STATES[state], own, translated)

    def _commits(
        self, name: str, sources: Sequence[TopicPartition]
    ) -> tuple[tuple[TopicPartition, CommittedOffset], ...]:
        offsets = self.groups[name].offsets
        return tuple((source, offsets[source]) for source in sources if source in offsets)

    def _positions(self, source: TopicPartition, names: Iterable[str]) -> Offsets:
        """The position of each group; 0 where it has read nothing, `NO_OFFSET` if it does not read the topic."""
        found = []
        for name in names:
            committed = self.groups[name].offsets.get(source)
            unread = 0 if source.topic in self._topics[name] else NO_OFFSET
            found.append(committed.offset if committed else unread)
        return np.array(found, dtype=np.int64)

    def _begun(
        self, source: TopicPartition, positions: Offsets, mapping: PartitionMap | None, names: Iterable[str]
    ) -> Offsets:
        """Positions for the translation: a group without a commit has read none of the copied records.

        Where records were left out below the first one that was copied, it has not read those either, and they are not
        on the target. So it stays below them, which makes the answer unknown.
        """
        if mapping is None or not mapping.began or mapping.began_late:
            return positions
        unread = np.array([source not in self.groups[name].offsets for name in names], dtype=np.bool_)
        return np.where(unread & (positions >= 0), np.maximum(positions, mapping.began), positions)

    def _feed(
        self, mapping: PartitionMap, source: TopicPartition, target: TopicPartition, at: Offsets, alone: bool
    ) -> Feed:
        return Feed(
            mapping,
            at,
            copied_to=self.copied.positions[source],
            source_end=self.copied.source_ends.get(source),
            floor=self.copied.ends[target].start if target in self.copied.ends else None,
            alone=alone,
        )

    def _map(self, source: TopicPartition, positions: Offsets) -> PartitionMap | None:
        copied_to = self.copied.positions.get(source)
        asked = positions[positions >= 0]
        if copied_to is None or not len(asked):
            return None
        # What is read again may have been copied long before the lowest position.
        lowest = 0 if self.other_way else int(asked.min())
        mapping = self.map_of(source, lowest, int(asked.max()))
        if not mapping.covered and mapping.began == copied_to:
            # No record has been copied yet: an empty coverage is complete.
            return replace(mapping, covered=(Covered(copied_to, copied_to),))
        return mapping

    def _identified(self, target: TopicPartition) -> Target:
        return Target(target.topic, self.copied.topic_ids.get(target.topic, ""), target.partition)

    def _ours(self, committed: CommittedOffset) -> bool:
        metadata = committed.metadata
        if not metadata:
            return False
        if metadata not in self._is_ours:
            self._is_ours[metadata] = parse(metadata, self.prefix) is not None
        return self._is_ours[metadata]


def feeding(
    sources: Iterable[TopicPartition], routing: Routing, ends: Mapping[TopicPartition, Ends]
) -> Iterator[tuple[list[TopicPartition], list[TopicPartition]]]:
    """Finds the source partitions that feed each target partition.

    Args:
        sources: Source partitions.
        routing: Routing of the pipeline.
        ends: A mapping whose keys are all target partitions.

    Yields:
        Target partitions, and the source partitions that may be routed to each of them. No target partition comes
        twice.
    """
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    spread: set[str] = set()
    for name, partitions in groupby(sorted(sources), key=attrgetter("topic")):
        topic = routing.target_if_any(name)
        if topic is None:
            continue  # the topic has no route any more
        by_topic[topic] += partitions
        if not routing.keeps_partition(name):
            spread.add(topic)
    by_target: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
    for topic, feeds in by_topic.items():
        if topic in spread:  # by one of its sources; then any partition may be fed by all of them
            yield sorted(tp for tp in ends if tp.topic == topic), feeds
            continue
        for source in feeds:
            by_target[TopicPartition(topic, source.partition)].append(source)
    yield from (([target], feeds) for target, feeds in by_target.items())


def _unknown(count: int) -> Translated:
    return Translated(np.full(count, NO_OFFSET), np.full(count, TranslationState.UNKNOWN, dtype=np.uint8))


def _not_replicated(count: int) -> Translated:
    return Translated(np.full(count, NO_OFFSET), np.full(count, TranslationState.NOT_REPLICATED, dtype=np.uint8))
