"""Reads the input of a failback plan: the groups of both clusters, and the mappings of one pipeline or of two."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS, TopicPartition
from k2k_assets.groups.failback_plan import FailbackPlan, Pipe, plan_failback
from k2k_assets.groups.followed import FollowedMappings
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.kafka.group_reader import fetch_offsets, list_states
from k2k_assets.kafka.groups import Ends, Fetched
from k2k_assets.kafka.leaders import ranges_where_led
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.lost_copies import known_to_cut
from k2k_assets.mapping.algebra.partition_map import PartitionMap
from k2k_assets.mapping.live.noted_ways import is_exactly_once
from k2k_assets.permissions.group_check import missing_on_groups
from k2k_assets.permissions.missing import refuse
from k2k_assets.permissions.topic_check import TopicCheck
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.reverse import is_told_by_mappings, reverse_of
from k2k_assets.pipeline.sections.group_selection import GroupSelection
from k2k_assets.translation.both_sides import as_noted, shared_partitions
from k2k_assets.translation.other_clusters import ThirdClusters
from k2k_assets.translation.reverse_mappings import REMEDY
from k2k_assets.translation.source_logs import SourceLogs

log = logging.getLogger("k2k.groups")


def failback_plans(
    pipeline: Pipeline, source: Cluster, target: Cluster, reverse: Pipeline | None = None, patience: float = 30.0
) -> list[FailbackPlan]:
    """Plans the return of all selected groups.

    Args:
        pipeline: The pipeline that copied from source to target; its `groups.consumerGroups` selects the groups.
        source: The cluster that the groups return to.
        target: The cluster that the groups leave.
        reverse: The pipeline that copies from target to source, if there is one. None, and the pipeline is
            bidirectional: whatever copies back, as far as the mappings on the source tell.
        patience: Give up after so many seconds without a mapping record.

    Returns:
        A plan for each group; groups without a commit in a replicated topic are left out.

    Raises:
        ClusterUnreachable: A cluster does not answer.
        Refused: There are no mappings, a group cannot be read, a needed permission is missing, or the two pipelines are
            not each other's reverse.
    """
    clusters = pipeline, source, target
    refuse([*TopicCheck(*clusters, "failback").existing(), *missing_on_groups(*clusters, "failback")])
    if reverse is not None:
        _ensure_reverse(reverse, source, target)
    selection = GroupSelection(pipeline.groups.consumer_groups)
    names = [name for name in list_states(target) if selection.matches(name)]
    with ExitStack() as stack:
        forth = stack.enter_context(
            FollowedMappings(
                *clusters,
                patience=patience,
                may_use=lambda *on: TopicCheck(*clusters, "failback", *on).ensure_existing(),
            )
        )
        back: FollowedMappings | None = None
        noted, shared = _both_ways(pipeline, forth)
        if reverse is not None:
            back = stack.enter_context(_reverse_mappings(reverse, source, target, patience))
        elif noted.shares_targets:
            back = _whatever_copies_back(noted, forth, clusters, patience)
            if back:
                stack.enter_context(back)
        # Read before the cuts, so that all records that the groups have read lie below the cuts.
        on_target = _settled(fetch_offsets(target, names), target)
        on_source = _settled(fetch_offsets(source, on_target.groups), source)
        pipe = _pipe(forth)
        starts, ends, offline = ranges_where_led(source, pipe.copied.positions, "latest")
        for partition, why in offline.items():
            log.warning("%s is left as it is: %s", partition, why)
        source_ends = {tp: Ends(starts[tp], end) for tp, end in ends.items()}
        logs = SourceLogs(pipeline, source).ends(ends, forth.committed(), on_source.groups.values())
        pipe = replace(pipe, copied=replace(pipe.copied, source_logs=logs.offsets, read_to=logs.read_to))
        target_logs = target.led_offsets(pipe.copied.ends, "latest").offsets
        return plan_failback(
            on_target.groups,
            on_source.groups,
            pipe,
            source_ends,
            pipeline.groups.offset_guard_prefix,
            _pipe_back(back, reverse, pipeline, target) if back else None,
            target_logs,
            frozenset(offline) | _of_third_clusters(noted, forth, pipe, back, (source, target), shared, patience),
            shared=shared,
        )


def _both_ways(pipeline: Pipeline, forth: FollowedMappings) -> tuple[Pipeline, frozenset[TopicPartition]]:
    """The pipeline, bidirectional if its mappings say so, and the source partitions whose target others write to."""
    if not is_told_by_mappings(pipeline):
        return pipeline, frozenset(forth.mapped) if pipeline.shares_targets else frozenset()
    shared = shared_partitions(forth, forth.mapped.values())
    noted = as_noted(pipeline, forth, shared)
    return noted, frozenset(tp for tp, source in forth.mapped.items() if source in shared)


def _of_third_clusters(
    pipeline: Pipeline,
    forth: FollowedMappings,
    pipe: Pipe,
    back: FollowedMappings | None,
    clusters: tuple[Cluster, Cluster],
    shared: Collection[TopicPartition],
    patience: float,
) -> frozenset[TopicPartition]:
    """Source partitions of which nothing is known, because a third cluster is copied to their topics on either side."""
    if pipeline.bidirectional.mode != "pipeline" or not shared or back is None:
        return frozenset()
    known = ThirdClusters(pipeline, reverse_of(pipeline), *clusters)
    known.refresh(patience)
    found = set()
    for tp in shared:
        here = Target(tp.topic, forth.mapped[tp].topic_id, tp.partition)
        into = pipe.target(TopicPartition(forth.routing.target_if_any(tp.topic) or "", tp.partition))
        third = (
            forth.other_cluster_into(into.topic) or known.into_target(into)
            or back.other_cluster_into(tp.topic) or known.into_source(here)
        )  # fmt: skip
        if third:
            log.warning(
                "%s: positions are unknown, for another cluster (%s) is copied to it or to %s too. Write "
                "'mode: cluster' of bidirectional in all files", tp, third, into.topic,
            )  # fmt: skip
            found.add(tp)
    return frozenset(found)


def _whatever_copies_back(
    pipeline: Pipeline, forth: FollowedMappings, clusters: tuple[Pipeline, Cluster, Cluster], patience: float
) -> FollowedMappings | None:
    """Opens the mappings of the pipeline back by their names; None if there are none: then positions are unknown."""
    given, source, target = clusters
    routing, topics = forth.routing, {tp.topic for tp in forth.mapped}
    same_names = None if given.shares_targets else all(routing.target_if_any(topic) == topic for topic in topics)
    try:
        return FollowedMappings(reverse_of(pipeline, same_names), target, source, patience=patience)
    except Refused as error:
        if given.shares_targets:
            raise
        log.warning(
            "the mapping records say that both sides are written, and the mappings of the pipeline back cannot be "
            "read: %s. Positions are unknown: give its file with --reverse-file, or %s", error, REMEDY,
        )  # fmt: skip
        return None


def _reverse_mappings(reverse: Pipeline, source: Cluster, target: Cluster, patience: float) -> FollowedMappings:
    """Opens the mappings of the reverse pipeline, with its permissions checked: hidden topics would seem missing."""
    clusters = reverse, target, source
    refuse(TopicCheck(*clusters, "failback").existing())
    return FollowedMappings(
        *clusters,
        patience=patience,
        may_use=lambda *on: TopicCheck(*clusters, "failback", *on).ensure_existing(),
    )


def _pipe(mappings: FollowedMappings) -> Pipe:
    """A pipeline's mappings at a cut taken now."""
    copied = mappings.cut()
    # Known by the cut: who copies at least once says so before the first copy.
    return Pipe(mappings.map_of, mappings.routing, copied, mappings.with_copies_at_least_once())


def _pipe_back(mappings: FollowedMappings, reverse: Pipeline | None, pipeline: Pipeline, target: Cluster) -> Pipe:
    """The mappings of the pipeline back, as far as the target's logs are those that it has copied.

    Without its file its control records tell the delivery mode.
    """
    copied = mappings.cut()
    logs = SourceLogs(reverse_of(pipeline), target).ends(mappings.mapped, mappings.committed()).offsets

    def map_of(partition: TopicPartition) -> PartitionMap:
        return known_to_cut(mappings.map_of(partition), logs.get(partition))

    if reverse:
        at_least_once = mappings.at_least_once()
    else:
        newest = mappings.committed()
        ways = {tp: mappings.ways_of(source) for tp, source in mappings.mapped.items()}
        at_least_once = {tp for tp, noted in ways.items() if not is_exactly_once(noted, newest.get(tp))}
    # Read after the cut: so unmapped copies on the source are of records below these ends.
    known = target.led_offsets(at_least_once, "latest").offsets if at_least_once else {}
    ends = {tp: known.get(tp, BEYOND_ALL_LOGS) for tp in at_least_once}
    return Pipe(map_of, mappings.routing, replace(copied, source_ends=ends))


def _settled(found: Fetched, cluster: Cluster) -> Fetched:
    for group, why in found.failed.items():
        if group not in found.groups:
            raise Refused(f"the offsets of group {group} on the {cluster} cannot be read: {why}")
    return found


def _ensure_reverse(reverse: Pipeline, source: Cluster, target: Cluster) -> None:
    with both_clusters(reverse) as (other_source, other_target):
        if (other_source.cluster_id(), other_target.cluster_id()) != (target.cluster_id(), source.cluster_id()):
            raise Refused(
                f"pipeline {reverse.name} does not copy from the {target} to the {source}, so it is not the reverse "
                f"one: it copies from {other_source.servers} to {other_target.servers}"
            )
