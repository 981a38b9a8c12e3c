"""What has to be true before the first record is copied, and the plan of each slot."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.leaders import END_UNKNOWN, ends_of_each_topic
from k2k_assets.permissions.missing import refuse
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.first_look import FirstLook, look_at_clusters
from k2k_assets.replication.extent import Extent
from k2k_assets.replication.plan import ControlPartitions, PartitionPlan, SlotPlan
from k2k_assets.topics.target_topics import ensure_target_topics
from k2k_assets.transport.errors import timeout_too_long

log = logging.getLogger("k2k.replication")

# librdkafka's own batch limit, and what a batch's frame may take of the topic's.
_BATCH_BYTES = 1_000_000
_BATCH_FRAME = 512


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The clusters as they are when the run begins.

    Attributes:
        cluster_id: Source cluster id.
        topics: Source topic -> target topic and number of source partitions.
        descriptions: Source topics.
        targets: Target topics.
        control: The control topics.
        batch_bytes: Largest batch that every target topic takes.
        one_to_one: Whether each target partition is fed by one source partition only, of all that the pipeline
            selects: a run of some topics is not alone on a shared target.
    """

    cluster_id: str
    topics: dict[str, tuple[str, int]]
    descriptions: dict[str, TopicDescription]
    targets: dict[str, TopicDescription]
    control: ControlPartitions
    batch_bytes: int
    one_to_one: bool

    @property
    def partitions(self) -> list[TopicPartition]:
        """All source partitions."""
        return [TopicPartition(topic, p) for topic, (_, count) in self.topics.items() for p in range(count)]

    @property
    def topic_ids(self) -> dict[TopicPartition, str]:
        """Source topic id of each source partition."""
        return {tp: self.descriptions[tp.topic].topic_id for tp in self.partitions}

    def seen_again(self, source: Cluster, target: Cluster) -> ClusterSnapshot:
        """With the topics as they are now: one that was created anew may be copied again since, by an override.

        A topic that is gone, or may not be seen any more, stays as it was: its slot tells.

        Raises:
            ClusterUnreachable: A cluster does not answer.
        """
        on_source = source.describe_async(self.descriptions, partly=True)
        on_target = target.describe_async(self.targets, partly=True)
        return replace(self, descriptions=self.descriptions | on_source(), targets=self.targets | on_target())

    def with_new(self, new: ClusterSnapshot) -> ClusterSnapshot:
        """With topics that were looked at since, and the control topics as they were then."""
        return replace(
            new,
            topics=self.topics | new.topics,
            descriptions=self.descriptions | new.descriptions,
            targets=self.targets | new.targets,
            batch_bytes=min(self.batch_bytes, new.batch_bytes),
            one_to_one=self.one_to_one and new.one_to_one,  # what is gone may come back
        )


def prepare(pipeline: Pipeline, source: Cluster, target: Cluster, only: Collection[str] | None) -> ClusterSnapshot:
    """Checks both clusters, creates what is missing, describes what is there.

    Args:
        pipeline: The pipeline.
        source: Source cluster.
        target: Target cluster.
        only: Only these source topics; listed ones that do not exist are no matter then.

    Raises:
        Refused: Something stands against it.
        ClusterUnreachable: A cluster does not answer.
    """
    return create_missing(pipeline, look_at_clusters(pipeline, source, target, only))


def create_missing(pipeline: Pipeline, look: FirstLook) -> ClusterSnapshot:
    """Creates what is missing after the first look, and describes what is there.

    Raises:
        Refused: Something stands against it.
        ClusterUnreachable: A cluster does not answer.
    """
    source, target, selected, names = look.source, look.target, look.topics, look.targets
    ensure_transaction_timeout(pipeline, target)
    ensure_target_topics(pipeline, source, target, selected)
    ensure_control_topics(pipeline, target)
    refuse(look.permissions.after_creation())
    control = target.describe(_control_names(pipeline))
    targets = target.describe(set(names.values()))
    _ensure_there([*_control_names(pipeline), *names.values()], control.keys() | targets.keys(), target)
    commit = control[pipeline.coordination.commit.topic]
    mapping = control[pipeline.offset_mapping.topic].partitions if pipeline.features.offset_mapping else 0
    descriptions = source.describe(selected)
    if pipeline.selection.literal is not None:
        _ensure_there(selected, descriptions, source)
    return ClusterSnapshot(
        cluster_id=look.source_id,
        topics={t: (names[t], descriptions[t].partitions) for t in selected if t in descriptions},
        descriptions=descriptions,
        targets=targets,
        control=ControlPartitions(commit.partitions, mapping, commit.topic_id),
        batch_bytes=_batch_bytes(target, set(names.values())),
        one_to_one=look.one_to_one,
    )


def _ensure_there(wanted: Collection[str], found: Collection[str], cluster: Cluster) -> None:
    """Topics that were there a moment ago, or were created then."""
    if gone := sorted(set(wanted) - set(found)):
        raise Refused(
            f"topics of the {cluster} were deleted while the run was prepared: {', '.join(gone)}. Start again"
        )


def ensure_transaction_timeout(pipeline: Pipeline, target: Cluster) -> None:
    """Whether the target takes transactions of the pipeline's time-out; if it does not say, the first one tells.

    Raises:
        Refused: It does not.
        ClusterUnreachable: It does not answer.
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
    """One plan for each slot.

    Args:
        pipeline: The pipeline.
        snapshot: The clusters as they are.
        source: For the ends.
        generation: Of the instance.
        shares: The partitions of each slot.
        extent: When to end.
        known_topics: Source topics whose new partitions start at their beginning.
        begins_at: Where partitions without a position start; the others start where their log does.
        dead: Slots that need not be waited for.
    """
    ends, offline = ends_of_each_topic(source, [tp for share in shares for tp in share], pipeline.readable_end)

    def end_of(tp: TopicPartition) -> int:
        if tp in offline:
            return END_UNKNOWN
        return ends.get(tp, 0)  # one that was deleted meanwhile is stopped by its slot

    def plan(tp: TopicPartition) -> PartitionPlan:
        return PartitionPlan(
            source=tp,
            source_topic_id=snapshot.descriptions[tp.topic].topic_id,
            target_topic=snapshot.topics[tp.topic][0],
            target_topic_id=snapshot.targets[snapshot.topics[tp.topic][0]].topic_id,
            readable_end=end_of(tp),
            begins_at=begins_at.get(tp),
        )

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
        )
        for slot, share in enumerate(shares)
    ]


def _control_names(pipeline: Pipeline) -> list[str]:
    names = [pipeline.coordination.commit.topic, pipeline.coordination.assignment.topic]
    return [*names, pipeline.offset_mapping.topic] if pipeline.features.offset_mapping else names


def _batch_bytes(target: Cluster, topics: Collection[str]) -> int:
    """A batch of small records must not be larger than what the smallest topic takes."""
    limits = [
        int(configs["max.message.bytes"])
        for configs in target.topic_configs(topics, only_changed=False).values()
        if "max.message.bytes" in configs
    ]
    return max(_BATCH_FRAME, min([_BATCH_BYTES, *(limit - _BATCH_FRAME for limit in limits)]))
