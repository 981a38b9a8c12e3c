"""Where consumer groups belong on the target now. Commits nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.followed import FollowedMappings, MayUse
from k2k_assets.groups.other_mappings import ensure_one_mapping_each
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.groups import Ends, GroupOffsets
from k2k_assets.kafka.leaders import offsets_where_led
from k2k_assets.pipeline import Pipeline
from k2k_assets.translation.groups import Answer, translate_groups

_FAR = 2**62


@dataclass(frozen=True, slots=True)
class TranslatedGroups:
    """Where groups belong.

    Attributes:
        answers: By group; groups without any answer are left out.
        source_ends: End of what can be read in each source partition.
        target_ends: Log start and end of what can be read in each target partition.
        offline_partitions: Partitions on either side that have no leader, with the reason: their ends are not there.
        not_begun: Source partitions in which a group stands and with which copying has not begun, though the pipeline
            selects their topic.
    """

    answers: dict[str, list[Answer]]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, Ends]
    offline_partitions: Mapping[TopicPartition, str] = field(default_factory=dict)
    not_begun: frozenset[TopicPartition] = frozenset()


class PositionTranslator:
    """Translates positions of groups by the mappings as they are now. To be used by one thread at a time.

    Args:
        pipeline: Whose mappings.
        source: The source cluster.
        target: The target cluster.
        patience: Seconds without a mapping record after which reading them is given up.
        may_use: As in `FollowedMappings`.

    Raises:
        ClusterUnreachable: A cluster does not answer, or a transaction hangs.
        Refused: There are no mappings, or some that cannot be read.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: Cluster,
        target: Cluster,
        patience: float = 30.0,
        may_use: MayUse | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._source = source
        self._target = target
        self._one_mapping = pipeline.error_handling.on_multiple_target_committed_offsets == "fail"
        self._mappings = FollowedMappings(pipeline, source, target, self._one_mapping, patience, may_use)

    def refresh(self) -> set[str]:
        """The source topics that are mapped: to be asked for before positions in them are read.

        Raises:
            ClusterUnreachable: The source does not answer.
        """
        return self._mappings.refresh()

    def translate(self, groups: Mapping[str, GroupOffsets]) -> TranslatedGroups:
        """Takes a cut, and translates.

        Args:
            groups: Positions on the source, read before this and after `refresh`.

        Raises:
            Changed: The topics are not those of the look any more: look again, and read the positions again.
            ClusterUnreachable: A cluster does not answer.
            Refused: A cluster refuses, or a control topic is not what it was.
            MultipleMappings: Two pipelines' mappings contradict each other, and the policy says fail.
        """
        copied = self._mappings.cut()
        # After the cut: at-least-once, what is on the target and not mapped yet lies below the ends.
        source_ends, without_end = offsets_where_led(self._source, self._mappings.mapped, self._pipeline.readable_end)
        source_logs, without_log = offsets_where_led(self._source, source_ends, "latest")
        copied = replace(
            copied,
            source_ends=None if self._pipeline.features.exactly_once else self._farthest(source_ends),
            source_logs=source_logs,
        )
        answers = translate_groups(
            groups,
            lambda tp, lowest, _: self._mappings.map_of(tp, lowest),
            self._mappings.routing,
            copied,
            self._pipeline.groups.offset_guard_prefix,
        )
        if self._one_mapping:
            ensure_one_mapping_each(answers, self._mappings.mapped, self._mappings.others_of, self._target)
        # What was mapped after L was taken can be read by now.
        now = offsets_where_led(self._target, copied.ends, "stable").offsets
        ends = {tp: Ends(at.start, max(at.end, now.get(tp, at.end))) for tp, at in copied.ends.items()}
        offline = {**copied.offline_partitions, **without_end, **without_log}
        return TranslatedGroups(answers, source_ends, ends, offline, self._not_begun(groups))

    def close(self) -> None:
        """Lets go of the clients."""
        self._mappings.close()

    def __enter__(self) -> PositionTranslator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _not_begun(self, groups: Mapping[str, GroupOffsets]) -> frozenset[TopicPartition]:
        standing = {tp for group in groups.values() for tp in group.offsets}
        matches = self._pipeline.selection.matches
        return frozenset(tp for tp in standing - self._mappings.known if matches(tp.topic))

    def _farthest(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Of a partition that has no leader now, more may have been copied than anybody knows."""
        return {tp: ends.get(tp, _FAR) for tp in self._mappings.mapped}
