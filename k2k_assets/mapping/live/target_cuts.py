"""Where target partitions lost copies: as a stop of the copy tells, or a partition that ends before its copies.

A stop tells of it also when the target has grown again since. Before the copy notices it, only the target's end tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.stops.reasons.target_log import TargetTruncated
from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS, TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.read_back import EndsOfCommitted
from k2k_assets.mapping.algebra.fold import Order, Target
from k2k_assets.mapping.algebra.in_memory_mapping import InMemoryMapping
from k2k_assets.mapping.algebra.partition_map import SourcePartition


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

    What a copy tries there makes the partition long again before its stop is written. So a cut is remembered until the
    source partition has new mappings: they tell where its copies are, be it in the places of those that were lost.

    Args:
        cluster: The target cluster.
        ends_of_committed: Finds where copies end below the log end: what was tried there may have been aborted.
    """

    def __init__(self, cluster: Cluster, ends_of_committed: EndsOfCommitted) -> None:
        self._cluster = cluster
        self._ends_of_committed = ends_of_committed
        self._seen: dict[SourcePartition, tuple[Order, dict[Target, int]]] = {}

    def look(self, held: Iterable[tuple[SourcePartition, InMemoryMapping]], stable: Mapping[Target, int]) -> None:
        """Looks which partitions end before their copies.

        Args:
            held: The mappings of the source partitions, known before this call.
            stable: Last stable offsets. Where one is lower, the log end is asked for: an open transaction, or a marker
                that is still to be written, holds back the last stable offset, and loses nothing.

        Raises:
            ClusterUnreachable: The target does not answer.
        """
        seen, doubtful = {}, []
        for source, mapping in held:
            if source in self._seen and self._seen[source][0] == mapping.newest:
                seen[source] = self._seen[source]
            for target, end in mapping.target_ends().items():
                if stable.get(target, end) < end:
                    doubtful.append((source, mapping.newest, target, end))
        ends = self._ends({_place(target) for _, _, target, _ in doubtful})
        short = [
            (source, newest, target) for source, newest, target, end in doubtful if ends.get(_place(target), end) < end
        ]
        known = earliest(*(cuts for _, cuts in seen.values()))
        new = {target for _, _, target in short if known.get(target, BEYOND_ALL_LOGS) > ends[_place(target)]}
        cuts = self._cuts({_place(target): ends[_place(target)] for target in new})
        known |= {target: cuts[_place(target)] for target in new if _place(target) in cuts}
        for source, newest, target in short:
            if target in known:
                seen.setdefault(source, (newest, {}))[1][target] = known[target]
        self._seen = seen

    def of(self, source: SourcePartition, record: CommitRecord | None) -> Mapping[Target, int]:
        """Target offset from which on copies of a source partition are lost, in each target partition that was cut.

        Args:
            source: The source partition.
            record: Its newest commit record, whose stop tells of a cut, too.
        """
        _, cuts = self._seen.get(source, (None, {}))
        told = told_by_stop(record)
        return earliest(cuts, told) if cuts and told else cuts or told

    def _ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._cluster.led_offsets(partitions, "latest").offsets if partitions else {}

    def _cuts(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return self._ends_of_committed(ends) if ends else ends


def _place(target: Target) -> TopicPartition:
    return TopicPartition(target.topic, target.partition)


def earliest(*cuts: Mapping[Target, int]) -> dict[Target, int]:
    """The earliest cut of each target partition."""
    found: dict[Target, int] = {}
    for each in cuts:
        found |= {at: min(cut, found.get(at, cut)) for at, cut in each.items()}
    return found
