"""Looks for traces of a group that has no commit record: then its control topics were lost, it is not new."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from k2k_assets.core import json_codec
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.replication")


def mapped_so_far(pipeline: Pipeline, target: Cluster) -> dict[TopicPartition, int]:
    """The ends of the mapping topic's partitions, to be asked for before the commit topic is read.

    Another instance of a new group may begin at the same time: what it has mapped by now, its positions tell of.
    """
    if not pipeline.features.offset_mapping:
        return {}
    return target.offsets(target.partitions_of([pipeline.offset_mapping.topic]), "stable")


def ensure_new_group(pipeline: Pipeline, target: Cluster, mapped: Mapping[TopicPartition, int]) -> None:
    """Refuses to start a group over whose mappings exist already.

    Read once, at the first start of a group. A mapping topic that is too long to be read within the time for the
    commit topic is not read to its end: that is logged.

    Args:
        pipeline: Names group and topics.
        target: The target cluster.
        mapped: `mapped_so_far`, of before the commit topic was read.

    Raises:
        Refused: The mapping topic holds records of the group.
    """
    if not mapped:
        return
    topic = pipeline.offset_mapping.topic
    starts = target.offsets(mapped, "earliest")
    mine = json_codec.encode({"group": pipeline.group})[:-1] + b","
    with LogReader(pipeline.client_properties("target", "consumer"), starts, committed_only=True) as reader:
        try:
            for batch in reader.read_until(mapped, Deadline(pipeline.coordination.commit.sync_timeout.total_seconds())):
                if any((message.key() or b"").startswith(mine) for message in batch):
                    raise Refused(
                        f"{topic} on the {target} holds mappings of group {pipeline.group}, but "
                        f"{pipeline.coordination.commit.topic} no position: its records were lost. To copy everything "
                        "from the start, use a new group.id"
                    )
        except NotReadToTheEnd as behind:
            log.warning("%s was not searched to its end for traces of group %s: %s", topic, pipeline.group, behind)
