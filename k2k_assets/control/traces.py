"""Looks for mapping records of a group without commit records: it is not new, but its control topics were lost."""

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
    """The ends of the mapping topic's partitions. The caller asks for them before it reads the commit topic.

    Another instance of a new group may begin at the same time: the commit topic has positions for all that it has
    mapped by now, so that these mapping records are not taken for traces of a lost group.
    """
    if not pipeline.features.offset_mapping:
        return {}
    return target.offsets(target.partitions_of([pipeline.offset_mapping.topic]), "stable")


def ensure_new_group(pipeline: Pipeline, target: Cluster, mapped: Mapping[TopicPartition, int]) -> None:
    """Refuses to start a group from the beginning if mapping records of it exist.

    This reads the mapping topic once, at the first start of a group. It gives up after the time for the commit topic
    (`coordination.commit.syncTimeout`), and logs that.

    Args:
        pipeline: Names group and topics.
        target: The target cluster.
        mapped: `mapped_so_far` from before the commit topic was read.

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
