"""Finds what a content check could compare, from the index and from both clusters."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.control.noted_settings import noted_settings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.in_memory_mapping import without
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.index.portion_columns import PortionsBySource, shared_targets, skipped_by_source
from k2k_assets.mapping.index.portions import (
    Portion,
    by_target,
    covered_ranges,
    set_by_hand,
    settings_ranges,
    skipped_ranges,
)
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.content.comparison import Comparison, PlannedPartition
from k2k_assets.verification.content.expected_headers import ClusterIds
from k2k_assets.verification.content.pieces import CopiedRange, Pieces, pieces
from k2k_assets.verification.content.sampling import Look, Ranges, Stretch, Unverified, union
from k2k_assets.verification.content.sides import Side, side_of
from k2k_assets.verification.content.verified import Verified

# Partitions of one run; for more, only their ends would be read, because there is no time to compare them.
_MOST_PARTITIONS = 4000


@dataclass(frozen=True, slots=True)
class Survey:
    """What could be compared.

    Attributes:
        source: The source side.
        target: The target side.
        clusters: Their ids.
        today: As in `Comparison`.
        chosen: The portions of the chosen partitions, in the order of their comparison.
        readable: As in `Comparison`.
        known: The notes of earlier evaluations on each partition with readable ranges, in the same order.
        copied: The copy of each chosen partition.
        noted: The settings behind the fingerprints.
        settings: Today's settings.
        folders: Where modules of functions may lie.
        former_topics: As in `Comparison`.
        offline_on_target: Target partitions without a leader, with the reason.
        offline: Partitions of both sides without a leader, with the reason.
        skipped: As in `Comparison`.
    """

    source: Side
    target: Side
    clusters: ClusterIds
    today: Mapping[TopicPartition, SourcePartition]
    chosen: Mapping[TopicPartition, Sequence[Portion]]
    readable: Mapping[TopicPartition, Ranges]
    known: Mapping[TopicPartition, Verified]
    copied: Mapping[TopicPartition, CopiedRange]
    noted: Mapping[str, CopySettings]
    settings: CopySettings
    folders: Sequence[str]
    former_topics: int
    offline_on_target: Mapping[TopicPartition, str]
    offline: Mapping[TopicPartition, str]
    skipped: Sequence[Stretch]

    def unverified(self) -> dict[TopicPartition, Unverified]:
        """The ranges to compare, in the order of `known`."""
        return {tp: known.unverified(self.readable[tp]) for tp, known in self.known.items()}

    def seen(self) -> dict[TopicPartition, Ranges]:
        """The ranges that were compared before, and are right, as far as that still counts."""
        return {tp: known.seen if known.last else () for tp, known in self.known.items()}

    def pieces_of(self, ranges: Mapping[TopicPartition, Ranges]) -> Pieces:
        """Cuts ranges where the settings of their copies change."""
        stretches = [Stretch(*tp, *each) for tp, of_partition in ranges.items() for each in of_partition]
        return pieces(stretches, self.copied, self.noted, self.settings, self.clusters, self.folders)

    def _incomparable(self) -> dict[TopicPartition, Ranges]:
        """What was found wrong before, and cannot be compared any more; though not all of it may be chosen now."""
        found: dict[TopicPartition, list[Covered]] = defaultdict(list)
        for each in self.pieces_of({tp: known.bad for tp, known in self.known.items() if known.bad}).unknown:
            found[TopicPartition(each.topic, each.partition)].append(Covered(each.start, each.end))
        return {tp: union(ranges) for tp, ranges in found.items()}

    def plan(self, look: Mapping[TopicPartition, Look]) -> Comparison:
        """The plan for ranges that were chosen from `unverified`.

        Raises:
            ClusterUnreachable: A cluster does not answer.
        """
        planned = {
            tp: PlannedPartition(
                self.today[tp], known, self.readable[tp], look[tp], _is_into(self.chosen[tp], self.offline_on_target)
            )
            for tp, known in self.known.items()
        }
        first = self.pieces_of({tp: each.first for tp, each in look.items()})
        second = self.pieces_of({tp: each.second for tp, each in look.items()})
        read_uncommitted = (p for p in (*first.found, *second.found) if p.isolation == "read_uncommitted")
        uncommitted = {TopicPartition(p.topic, p.partition) for p in read_uncommitted}
        latest, without_end = self.source.cluster.led_offsets(uncommitted, "latest")
        return Comparison(
            replace(self.source, latest=latest),
            self.target,
            self.clusters.source,
            self.today,
            self.readable,
            planned,
            first.found,
            second.found,
            unknown=sum(each.end - each.start for each in (*first.unknown, *second.unknown)),
            incomparable=self._incomparable(),
            former_topics=self.former_topics,
            offline_partitions={**self.offline, **without_end},
            skipped=self.skipped,
        )


def survey(
    pipeline: Pipeline,
    index: MappingIndex,
    source: Cluster,
    target: Cluster,
    verified: Mapping[SourcePartition, Verified],
    seed: int,
) -> Survey:
    """Finds what the index covers and the source still holds.

    Args:
        pipeline: The pipeline.
        index: The mapping index.
        source: The source cluster.
        target: The target cluster.
        verified: The notes of earlier evaluations.
        seed: The same seed gives the same order of partitions.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    cluster_id = source.cluster_id()
    rows = index.portions.filter(pc.equal(index.portions["cluster"], cluster_id))
    mapped = PortionsBySource(rows)
    existing = source.describe({at.topic for at in mapped.sources()})
    today = {
        TopicPartition(at.topic, at.partition): at
        for at in mapped.sources()
        if at.topic in existing and existing[at.topic].topic_id == at.topic_id
        if at.partition < existing[at.topic].partitions
    }
    topics = {tp.topic: existing[tp.topic] for tp in today}
    chosen = {tp: mapped.of(today[tp]) for tp in _chosen(today, verified, seed)}
    source_side, offline_on_source = side_of(source, topics, list(chosen))
    target_side, offline_on_target = _target_side(target, chosen.values())
    starts, without_start = source.led_offsets([tp for tp in chosen if tp in source_side.stable], "earliest")
    readable = {tp: _from(_copied_ranges(chosen[tp]), start) for tp, start in starts.items()}
    known = {tp: verified.get(today[tp], Verified()).within(ranges) for tp, ranges in readable.items() if ranges}
    shared = shared_targets(rows)
    copied = {tp: _copied(of_source, shared) for tp, of_source in chosen.items()}
    noted, settings = _settings(pipeline, copied.values(), target)
    return Survey(
        source_side,
        target_side,
        ClusterIds(cluster_id, target.cluster_id()),
        today,
        chosen,
        readable,
        # In the order of `_chosen`, because time may run out.
        {tp: known[tp] for tp in chosen if tp in known},
        copied,
        noted,
        settings,
        pipeline.folders,
        former_topics=len({(at.topic, at.topic_id) for at in mapped.sources()}) - len(topics),
        offline_on_target=offline_on_target,
        offline={**offline_on_source, **offline_on_target, **without_start},
        skipped=_skipped(rows, today),
    )


def _copied_ranges(portions: Sequence[Portion]) -> tuple[Covered, ...]:
    """What is covered, without what was skipped by hand: of that there is no copy, and perhaps nobody can read it."""
    return reduce(without, skipped_ranges(portions), covered_ranges(portions))


def _from(covered: Iterable[Covered], log_start: int) -> tuple[Covered, ...]:
    return tuple(Covered(max(start, log_start), end) for start, end in covered if end > log_start)


def _is_into(portions: Sequence[Portion], targets: Collection[TopicPartition]) -> bool:
    return any(TopicPartition(to.topic, to.partition) in targets for to, _ in by_target(portions)) if targets else False


def _chosen(
    today: Mapping[TopicPartition, SourcePartition], verified: Mapping[SourcePartition, Verified], seed: int
) -> list[TopicPartition]:
    """Chooses at most `_MOST_PARTITIONS` partitions, in the order of their comparison, because time may run out.

    Partitions that were found wrong come first, then those that were not compared for the longest time; else the order
    is random.
    """
    draw = random.Random(seed)
    known = {tp: verified.get(at, Verified()) for tp, at in sorted(today.items())}
    order = sorted(known, key=lambda tp: (not known[tp].bad, known[tp].turn, draw.random()))
    return order[:_MOST_PARTITIONS]


def _skipped(rows: pa.Table, today: Mapping[TopicPartition, SourcePartition]) -> list[Stretch]:
    """The ranges of today's partitions that were skipped by hand."""
    skipped = skipped_by_source(rows)
    return [Stretch(*tp, *each) for tp, at in today.items() for each in skipped.get(at, ())]


def _settings(
    pipeline: Pipeline, copied: Iterable[CopiedRange], target: Cluster
) -> tuple[Mapping[str, CopySettings], CopySettings]:
    """The settings behind the fingerprints, and today's; the cluster is asked only if there are others than today's."""
    today = CopySettings.of(pipeline)
    others = {under.settings for each in copied for under in each.under} - today.by_fingerprint.keys()
    return (noted_settings(pipeline, target) if others else today.by_fingerprint), today


def _copied(portions: Sequence[Portion], shared: Collection[Target]) -> CopiedRange:
    into = by_target(portions)
    targets = [target for target, _ in into]
    one_each = len({(target.topic, target.topic_id) for target in targets}) == len(targets)
    # If the routing led to another topic and back, others may have written meanwhile without stopping the copy.
    ranges = sorted((min(p.start for _, p in of), max(p.last.source_end for _, p in of)) for _, of in into)
    came_back = any(one[1] > other[0] for one, other in pairwise(ranges))
    one_to_one = one_each and not came_back and not any(target in shared for target in targets)
    return CopiedRange(settings_ranges(portions), set_by_hand(portions), one_to_one)


def _target_side(target: Cluster, chosen: Iterable[Sequence[Portion]]) -> tuple[Side, Mapping[TopicPartition, str]]:
    into = {to for portions in chosen for to, _ in by_target(portions)}
    existing = target.describe({to.topic for to in into})
    there = {
        TopicPartition(to.topic, to.partition)
        for to in into
        if to.topic in existing and to.partition < existing[to.topic].partitions
    }
    return side_of(target, existing, sorted(there))
