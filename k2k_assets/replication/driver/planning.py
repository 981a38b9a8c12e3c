"""Prepares both clusters before the first record is copied, and plans the slots."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.errors import Refused
from k2k_assets.core.this_process import this_process
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.leaders import END_UNKNOWN, ends_of_each_topic
from k2k_assets.permissions.missing import refuse
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.first_look import FirstLook, look_at_clusters
from k2k_assets.replication.extent import Extent
from k2k_assets.replication.plan import ControlPartitions, PartitionPlan, SlotPlan
from k2k_assets.topics.dead_letters import ensure_dead_letter_topics
from k2k_assets.topics.target_topics import create_planned, ensure_there, plan_target_topics
from k2k_assets.transport.errors import timeout_too_long

log = logging.getLogger("k2k.replication")

# librdkafka's default batch limit, and the part of a topic's limit that the frame of a batch may need.
_BATCH_BYTES = 1_000_000
_BATCH_FRAME = 512


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A look at both clusters: the topics that are copied, and the control topics.

    Attributes:
        cluster_id: Source cluster id.
        topics: Source topic -> target topic and number of source partitions.
        descriptions: Source topics.
        targets: Target topics.
        control: The control topics.
        batch_bytes: Largest batch that every target topic accepts.
        one_to_one: Whether one source partition, of all that the pipeline selects, feeds each target partition. A run
            that copies only some topics is not alone on a shared target.
        target_id: Target cluster id.
    """

    cluster_id: str
    topics: dict[str, tuple[str, int]]
    descriptions: dict[str, TopicDescription]
    targets: dict[str, TopicDescription]
    control: ControlPartitions
    batch_bytes: int
    one_to_one: bool
    target_id: str = ""

    @property
    def partitions(self) -> list[TopicPartition]:
        """All source partitions, topic by topic."""
        return [TopicPartition(topic, p) for topic, (_, count) in self.topics.items() for p in range(count)]

    @property
    def topic_ids(self) -> dict[TopicPartition, str]:
        """Source topic id of each source partition."""
        return {tp: self.descriptions[tp.topic].topic_id for tp in self.partitions}

    def seen_again(self, source: Cluster, target: Cluster) -> ClusterSnapshot:
        """The same snapshot with new topic descriptions: an override may have accepted a topic that was created anew.

        A topic that is gone, or hidden from the principal, keeps its description; its slot will stop it. One that was
        created anew may have fewer partitions; what the commit log says of the others stays.

        Raises:
            ClusterUnreachable: A cluster does not answer.
        """
        on_source = source.describe_async(self.descriptions, partly=True)
        on_target = target.describe_async(self.targets, partly=True)
        seen = on_source()
        # Of the same topic a broker may not know the newest partitions yet.
        anew = {name for name, topic in seen.items() if topic.topic_id != self.descriptions[name].topic_id}
        topics = {
            name: (to, min(count, seen[name].partitions) if name in anew else count)
            for name, (to, count) in self.topics.items()
        }
        descriptions = self.descriptions | seen
        return replace(self, topics=topics, descriptions=descriptions, targets=self.targets | on_target())

    def with_new(self, new: ClusterSnapshot) -> ClusterSnapshot:
        """This snapshot with the topics and the control topics of a newer one."""
        return replace(
            new,
            topics=self.topics | new.topics,
            descriptions=self.descriptions | new.descriptions,
            targets=self.targets | new.targets,
            batch_bytes=min(self.batch_bytes, new.batch_bytes),
            one_to_one=self.one_to_one and new.one_to_one,  # a topic that is gone may come back
        )


def prepare(pipeline: Pipeline, source: Cluster, target: Cluster, only: Collection[str] | None) -> ClusterSnapshot:
    """Checks both clusters, creates missing topics on the target, and describes all topics.

    Args:
        pipeline: The pipeline.
        source: Source cluster.
        target: Target cluster.
        only: Only these source topics; then other listed topics need not exist.

    Raises:
        Refused: A topic or a permission is missing, or a setting forbids the copy.
        ClusterUnreachable: A cluster does not answer.
    """
    return create_missing(pipeline, look_at_clusters(pipeline, source, target, only))


def create_missing(pipeline: Pipeline, look: FirstLook) -> ClusterSnapshot:
    """Creates missing target and control topics after the first look, and describes all topics.

    Raises:
        Refused: A topic cannot be created, or a setting forbids the copy.
        ClusterUnreachable: A cluster does not answer.
    """
    source, target, selected, names = look.source, look.target, look.topics, look.targets
    ensure_transaction_timeout(pipeline, target)
    plan = plan_target_topics(pipeline, source, target, selected)
    # First: a run of Dagster writes heartbeats there, while thousands of topics may be created.
    ensure_control_topics(pipeline, target)
    create_planned(pipeline, source, target, selected, plan)
    ensure_dead_letter_topics(pipeline, target, names.values())
    refuse(look.permissions.after_creation())
    control = target.describe(_control_names(pipeline))
    targets = target.describe(set(names.values()))
    ensure_there([*_control_names(pipeline), *names.values()], control.keys() | targets.keys(), target)
    commit = control[pipeline.coordination.commit.topic]
    mapping = control[pipeline.offset_mapping.topic].partitions if pipeline.features.offset_mapping else 0
    descriptions = source.describe(selected)
    if pipeline.selection.literal is not None:
        ensure_there(selected, descriptions, source)
    return ClusterSnapshot(
        cluster_id=look.source_id,
        topics={t: (names[t], descriptions[t].partitions) for t in selected if t in descriptions},
        descriptions=descriptions,
        targets=targets,
        control=ControlPartitions(commit.partitions, mapping, commit.topic_id),
        batch_bytes=_batch_bytes(target, {*names.values(), *pipeline.dead_letter_topics}),
        one_to_one=look.one_to_one,
        target_id=look.target_id,
    )


def ensure_transaction_timeout(pipeline: Pipeline, target: Cluster) -> None:
    """Makes sure that the target allows the pipeline's transaction time-out.

    If the principal may not see the brokers' limit, the first transaction tells.

    Raises:
        Refused: The time-out is too long for the target.
        ClusterUnreachable: The target does not answer.
    """
    try:
        most = target.broker_config("transaction.max.timeout.ms")
    except Refused as reason:
        log.debug("the brokers' settings are not looked at: %s", reason)
        return
    if most is not None and pipeline.transaction_timeout > timedelta(milliseconds=int(most)):
        raise Refused(timeout_too_long(pipeline.transaction_timeout, int(most)))


def plan_slots(
    pipeline: Pipeline,
    snapshot: ClusterSnapshot,
    source: Cluster,
    generation: int,
    shares: Sequence[Sequence[TopicPartition]],
    extent: Extent,
    known_topics: frozenset[str],
    begins_at: Mapping[TopicPartition, int],
    dead: frozenset[tuple[int, int]] = frozenset(),
) -> list[SlotPlan]:
    """Makes one plan for each slot.

    Args:
        pipeline: The pipeline.
        snapshot: The present clusters.
        source: Is asked for the ends.
        generation: The new generation.
        shares: The partitions of each slot.
        extent: When the slots end.
        known_topics: Source topics whose new partitions start at their beginning.
        begins_at: Start positions of partitions without a position; partitions that are missing here start at their
            log start.
        dead: Dead slots, whose release the new slots do not wait for.
    """
    ends, offline = ends_of_each_topic(source, [tp for share in shares for tp in share], pipeline.readable_end)

    def end_of(tp: TopicPartition) -> int:
        if tp in offline:
            return END_UNKNOWN
        return ends.get(tp, 0)  # if the partition was deleted meanwhile, its slot stops it

    def plan(tp: TopicPartition) -> PartitionPlan:
        return PartitionPlan(
            source=tp,
            source_topic_id=snapshot.descriptions[tp.topic].topic_id,
            target_topic=snapshot.topics[tp.topic][0],
            target_topic_id=snapshot.targets[snapshot.topics[tp.topic][0]].topic_id,
            readable_end=end_of(tp),
            begins_at=begins_at.get(tp),
        )

    throttle = pipeline.throttle
    sharing = throttle.sharing({t: n for t, (_, n) in snapshot.topics.items()}) if throttle.is_set else ()
    settings = CopySettings.of(pipeline)
    if not snapshot.one_to_one:
        settings = settings.shared_target
    return [
        SlotPlan(
            pipeline=pipeline,
            cluster=snapshot.cluster_id,
            generation=generation,
            slot=slot,
            slots=len(shares),
            partitions=tuple(map(plan, share)),
            extent=extent,
            control=snapshot.control,
            one_to_one=snapshot.one_to_one,
            batch_bytes=snapshot.batch_bytes,
            known_topics=known_topics,
            dead=dead,
            settings=settings.fingerprint,
            sharing=sharing,
            target_cluster=snapshot.target_id,
            instance=this_process(),
        )
        for slot, share in enumerate(shares)
    ]


def _control_names(pipeline: Pipeline) -> list[str]:
    names = [pipeline.coordination.commit.topic, pipeline.coordination.assignment.topic]
    return [*names, pipeline.offset_mapping.topic] if pipeline.features.offset_mapping else names


def _batch_bytes(target: Cluster, topics: Collection[str]) -> int:
    """The largest batch of several records that every topic accepts: a batch of small records must fit all of them."""
    limits = [
        int(configs["max.message.bytes"])
        for configs in target.topic_configs(topics, only_changed=False).values()
        if "max.message.bytes" in configs
    ]
    return max(_BATCH_FRAME, min([_BATCH_BYTES, *(limit - _BATCH_FRAME for limit in limits)]))
