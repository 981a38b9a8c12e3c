"""Where target partitions lost copies: as a stop of the copy tells, or a partition that ends before its copies.

A stop tells of it also when the target has grown again since. Before the copy notices it, only the target's end tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.stops.reasons.target_log import TargetTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Target


def told_by_stop(record: CommitRecord | None) -> dict[Target, int]:
    """Where the target of a source partition was cut, if its copy is stopped for that.

    Args:
        record: The partition's newest commit record.

    Returns:
        Target offset from which on copies are lost, by target partition.
    """
    if record is None or not isinstance(record.reason, TargetTruncated):
        return {}
    partition = record.reason.target.partition
    return {Target(record.target_topic, record.target_topic_id, partition): record.reason.found_offset}


class TargetCuts:
    """The target partitions that were seen to end before their copies.

    What a copy tries there makes the partition long again before its stop is written. So a cut is remembered until
    other mappings say where copies are.
    """

    def __init__(self) -> None:
        self._seen: dict[Target, tuple[int, int]] = {}  # where it was cut, and where its copies ended

    def look(self, cluster: Cluster, copied: Mapping[Target, int], stable: Mapping[Target, int]) -> None:
        """Looks which partitions end before their copies.

        Args:
            cluster: The target cluster.
            copied: Target offset after the last copy, by target partition, known before this call.
            stable: Last stable offsets. Where one is lower, the log end is asked for: an open transaction, or a marker
                that is still to be written, holds back the last stable offset, and loses nothing.

        Raises:
            ClusterUnreachable: The target does not answer.
        """
        self._seen = {at: seen for at, seen in self._seen.items() if copied.get(at) == seen[1]}
        doubtful = {TopicPartition(at.topic, at.partition): at for at, end in stable.items() if end < copied.get(at, 0)}
        ends = cluster.led_offsets(doubtful, "latest").offsets if doubtful else {}
        for tp, at in doubtful.items():
            before, _ = self._seen.get(at, (copied[at], 0))
            if ends.get(tp, before) < before:
                self._seen[at] = ends[tp], copied[at]

    def of(self, record: CommitRecord | None) -> dict[Target, int]:
        """Target offset from which on copies are lost, in each partition that was cut.

        Args:
            record: The newest commit record of a source partition, whose stop tells of a cut, too.
        """
        return earliest({at: cut for at, (cut, _) in self._seen.items()}, told_by_stop(record))


def earliest(*cuts: Mapping[Target, int]) -> dict[Target, int]:
    """The earliest cut of each target partition."""
    found: dict[Target, int] = {}
    for each in cuts:
        found |= {at: min(cut, found.get(at, cut)) for at, cut in each.items()}
    return found
