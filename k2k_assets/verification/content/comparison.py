"""Plans a content check: the pieces of partitions to compare, and the watermarks on both sides."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from k2k_assets.control.copy_settings import CopySettings, Isolation
from k2k_assets.control.noted_settings import noted_settings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.leaders import offsets_where_led, ranges_where_led
from k2k_assets.kafka.offset_ranges import OffsetRange
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.index.portion_columns import PortionsBySource, shared_targets, skipped_by_source
from k2k_assets.mapping.index.portions import (
    Portion,
    by_target,
    covered_ranges,
    set_by_hand,
    settings_ranges,
)
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.content.expected_headers import ClusterIds
from k2k_assets.verification.content.pieces import ComparedPiece, CopiedRange, pieces
from k2k_assets.verification.content.sampling import Look, Ranges, Stretch, joined, looks
from k2k_assets.verification.content.verified import Verified, asked_for

# Partitions of one run; for more, only their ends would be read, because there is no time to compare them.
_MOST_PARTITIONS = 4000
# Size of one Spark job, which takes a few seconds.
_RECORDS_PER_ROUND, _PIECES_PER_ROUND = 200_000, 1000

Limit = tuple[str, str, str, int, int, int, int, bool]
LIMITS = (
    "side string, topic string, topic_id string, partition int, low long, stable long, high long, compacted boolean"
)


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster's side of a comparison.

    Attributes:
        cluster: The cluster; it is asked for its watermarks again after the records were read.
        topics: Existing topics that take part.
        stable: Last stable offsets at the time of planning; nothing is read beyond.
        latest: High watermarks at that time, for partitions that were copied uncommitted; these are read up to them.
        compacted: Topics in which compaction may have removed any record.
    """

    cluster: Cluster
    topics: Mapping[str, TopicDescription]
    stable: Mapping[TopicPartition, int]
    compacted: frozenset[str]
    latest: Mapping[TopicPartition, int] = field(default_factory=dict)

    def limits(self, topics: Collection[str]) -> list[Limit]:
        """The present watermarks of topics, one row for each partition, columns `LIMITS`."""
        low, high, _ = ranges_where_led(self.cluster, [tp for tp in self.stable if tp.topic in topics], "latest")
        return [
            (
                self.cluster.role,
                tp.topic,
                self.topics[tp.topic].topic_id,
                tp.partition,
                low[tp],
                stable,
                high[tp],
                tp.topic in self.compacted,
            )
            for tp in high
            for stable in [self.stable[tp]]
        ]

    def readable(
        self, ranges: Iterable[tuple[TopicPartition, int, int]], gap: int, isolation: Isolation = "read_committed"
    ) -> list[OffsetRange]:
        """The readable parts of ranges (start inclusive, end exclusive).

        Args:
            ranges: Ranges, in any order.
            gap: Ranges that are at most so far apart are joined; then more is read than was asked for.
            isolation: Isolation level of the read.
        """
        ends = self.stable if isolation == "read_committed" else self.latest
        by_partition: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        for tp, start, end in ranges:
            readable = ends.get(tp, 0)
            if start < readable:
                by_partition[tp].append((start, min(end, readable)))
        return [OffsetRange(*tp, *piece) for tp, pieces in by_partition.items() for piece in joined(pieces, gap)]


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One source partition in a comparison.

    Attributes:
        source: The source partition.
        known: The notes of earlier evaluations, as far as they are still valid.
        readable: Ranges that are mapped and still on the source; at least one.
        look: The ranges to compare.
        is_hidden: Whether some of its copies lie in target partitions without a leader.
    """

    source: SourcePartition
    known: Verified
    readable: Ranges
    look: Look
    is_hidden: bool

    def asked_for(self) -> set[int]:
        """The source offsets for which the last mapped record below has to be found."""
        return asked_for(self.known, self.look, self.readable)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The plan of a content check.

    Attributes:
        source: The source side.
        target: The target side.
        source_cluster: Id of the source cluster; runs of others are left out.
        today: All source partitions with today's topic ids; the check may plan only some of them.
        readable: Ranges that are mapped and still on the source, for partitions whose ends could be read.
        planned: The planned partitions.
        first: Pieces to compare first, in this order: those found wrong before, and fresh ones.
        second: Pieces to compare after these.
        unknown: Sampled offsets that were copied under settings that are not known any more.
        former_topics: Number of topics in the index that do not exist on the source any more under their id.
        offline_partitions: Partitions on either side without a leader, with the reason; they are left out.
        skipped: Source ranges that were skipped by hand, including those that are not compared.
    """

    source: Side
    target: Side
    source_cluster: str
    today: Mapping[TopicPartition, SourcePartition] = field(default_factory=dict)
    readable: Mapping[TopicPartition, Ranges] = field(default_factory=dict)
    planned: Mapping[TopicPartition, PlannedPartition] = field(default_factory=dict)
    first: list[ComparedPiece] = field(default_factory=list)
    second: list[ComparedPiece] = field(default_factory=list)
    unknown: int = 0
    former_topics: int = 0
    offline_partitions: Mapping[TopicPartition, str] = field(default_factory=dict)
    skipped: Sequence[Stretch] = ()

    def source_ids(self) -> list[tuple[str, str]]:
        """Topic and topic id of the source topics that take part."""
        return [(topic.name, topic.topic_id) for topic in self.source.topics.values()]


def rounds(pieces: Iterable[ComparedPiece]) -> Iterator[list[ComparedPiece]]:
    """Splits pieces into rounds, in order; each round is one comparison."""
    some: list[ComparedPiece] = []
    records = 0
    for piece in pieces:
        some.append(piece)
        records += piece.end - piece.start
        if records >= _RECORDS_PER_ROUND or len(some) >= _PIECES_PER_ROUND:
            yield some
            some, records = [], 0
    if some:
        yield some


def plan_comparison(
    pipeline: Pipeline,
    index: MappingIndex,
    source: Cluster,
    target: Cluster,
    verified: Mapping[SourcePartition, Verified],
    budget: int | None,
    seed: int,
) -> Comparison:
    """Chooses the pieces from what the index covers and the source still holds.

    Args:
        pipeline: The pipeline.
        index: The mapping index.
        source: The source cluster.
        target: The target cluster.
        verified: The notes of earlier evaluations.
        budget: Offsets that may be compared; None: the default.
        seed: The same seed draws the same samples.

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
    source_side, offline_on_source = _side(source, topics, list(chosen))
    target_side, offline_on_target = _target_side(target, chosen.values())
    starts, without_start = offsets_where_led(source, [tp for tp in chosen if tp in source_side.stable], "earliest")
    readable = {tp: _from(covered_ranges(chosen[tp]), start) for tp, start in starts.items()}
    known = {tp: verified.get(today[tp], Verified()).within(ranges) for tp, ranges in readable.items() if ranges}
    # In the order of `_chosen`, because time may run out.
    unverified = {tp: known[tp].unverified(readable[tp]) for tp in chosen if tp in known}
    look = looks(unverified, budget, seed)
    planned = {
        tp: PlannedPartition(today[tp], known[tp], readable[tp], look[tp], _is_into(chosen[tp], offline_on_target))
        for tp in unverified
    }
    shared = shared_targets(rows)
    copied = {tp: _copied(of_source, shared) for tp, of_source in chosen.items()}
    clusters = ClusterIds(cluster_id, target.cluster_id())
    noted, settings = _settings(pipeline, copied.values(), target)
    under = (copied, noted, settings, clusters, pipeline.folders)
    first = pieces(_stretches({tp: each.first for tp, each in look.items()}), *under)
    second = pieces(_stretches({tp: each.second for tp, each in look.items()}), *under)
    read_uncommitted = (p for p in (*first.found, *second.found) if p.isolation == "read_uncommitted")
    uncommitted = {TopicPartition(p.topic, p.partition) for p in read_uncommitted}
    latest, without_end = offsets_where_led(source, uncommitted, "latest")
    return Comparison(
        replace(source_side, latest=latest),
        target_side,
        cluster_id,
        today,
        readable,
        planned,
        first.found,
        second.found,
        unknown=first.unknown + second.unknown,
        former_topics=len({(at.topic, at.topic_id) for at in mapped.sources()}) - len(topics),
        offline_partitions={**offline_on_source, **offline_on_target, **without_start, **without_end},
        skipped=_skipped(rows, today),
    )


def _from(covered: Iterable[Covered], log_start: int) -> tuple[Covered, ...]:
    return tuple(Covered(max(start, log_start), end) for start, end in covered if end > log_start)


def _stretches(ranges: Mapping[TopicPartition, Ranges]) -> list[Stretch]:
    return [Stretch(*tp, *each) for tp, of_partition in ranges.items() for each in of_partition]


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
    return _side(target, existing, sorted(there))


def _side(
    cluster: Cluster, topics: Mapping[str, TopicDescription], partitions: Collection[TopicPartition]
) -> tuple[Side, Mapping[TopicPartition, str]]:
    """Makes one side, and finds its partitions without a leader."""
    stable, offline = offsets_where_led(cluster, partitions, "stable")
    return Side(cluster, topics, stable, compacted_topics(cluster, topics)), offline


def compacted_topics(cluster: Cluster, topics: Iterable[str]) -> frozenset[str]:
    """The topics in which compaction may have removed any record."""
    configs = cluster.topic_configs(list(topics), only_changed=False)
    return frozenset(name for name, config in configs.items() if "compact" in config.get("cleanup.policy", ""))
