"""Translates the positions of consumer groups by the present mappings. Commits nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS, TopicPartition
from k2k_assets.groups.followed import FollowedMappings, MayUse
from k2k_assets.groups.other_mappings import ensure_one_mapping_each
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.groups import Ends, GroupOffsets
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.algebra.translate import TranslationState
from k2k_assets.pipeline import Pipeline
from k2k_assets.translation.both_sides import BothSides
from k2k_assets.translation.groups import Answer, translate_groups
from k2k_assets.translation.other_pipelines import unknown_beside_others, without_others
from k2k_assets.translation.other_way import OtherWay
from k2k_assets.translation.source_logs import LogEnds, SourceLogs


@dataclass(frozen=True, slots=True)
class TranslatedGroups:
    """The translated positions of groups.

    Attributes:
        answers: Answers by group; groups without any answer are left out.
        source_ends: Last stable offset of each source partition.
        target_ends: Log start and last stable offset of each target partition.
        offline_partitions: Partitions on either side without a leader, with the reason; their ends are missing.
        not_begun: Source partitions with a position of a group whose copying has not begun, though the pipeline selects
            their topic.
        unproven: Target partitions in which positions are unknown because others write there, because copies are lost,
            or because the source has lost what was copied, with the reason and what to do.
        mapped_ends: The source offset up to which the mappings of each source partition are known.
        records_read: Number of mapping records read so far.
        repeated_back: Target partitions whose records the pipeline back may have copied more than once.
    """

    answers: dict[str, list[Answer]]
    source_ends: Mapping[TopicPartition, int]
    target_ends: Mapping[TopicPartition, Ends]
    offline_partitions: Mapping[TopicPartition, str] = field(default_factory=dict)
    not_begun: frozenset[TopicPartition] = frozenset()
    unproven: Mapping[TopicPartition, str] = field(default_factory=dict)
    mapped_ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    records_read: int = 0
    repeated_back: frozenset[TopicPartition] = frozenset()


class PositionTranslator:
    """Translates positions of groups by the present mappings. Only one thread at a time may use it.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        patience: Give up after so many seconds without a mapping record.
        may_use: Called once with the mapped topics, see `FollowedMappings`.

    Raises:
        ClusterUnreachable: A cluster does not answer, or a transaction hangs.
        Refused: There are no mappings, or some cannot be read.
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
        self._patience = patience
        self._mappings = FollowedMappings(pipeline, source, target, self._one_mapping, patience, may_use)
        self._logs = SourceLogs(pipeline, source)
        # Where records are written on the target as well, this tells which of them a group has read.
        self._both_sides = BothSides(pipeline, source, target, self._mappings)

    def refresh(self) -> set[str]:
        """Topics of the source; the caller reads positions in them after this and before `translate`.

        They are the mapped ones, and those that other pipelines copy into the same target topics.

        Raises:
            ClusterUnreachable: The source does not answer.
        """
        return self._mappings.refresh()

    def translate(self, groups: Mapping[str, GroupOffsets]) -> TranslatedGroups:
        """Takes a cut, and translates.

        Args:
            groups: Positions on the source, read after `refresh` and before this.

        Raises:
            Changed: The mapped topics have changed since `refresh`; call it again, and read the positions again.
            ClusterUnreachable: A cluster does not answer.
            Refused: A cluster refuses, or a control topic was deleted or created anew.
            MultipleMappings: Two pipelines' mappings contradict each other, and the policy says fail.
        """
        copied = self._mappings.cut()
        # Read after the cut: in at-least-once mode, unmapped records on the target then lie below the source ends.
        source_ends, without_end = self._source.led_offsets(self._mappings.mapped, self._pipeline.readable_end)
        logs = self._logs.ends(self._mappings.mapped, self._mappings.committed(), groups.values())
        copied = replace(
            copied,
            # Of a partition without a leader more may be copied than is known.
            source_ends={tp: source_ends.get(tp, BEYOND_ALL_LOGS) for tp in self._mappings.at_least_once()},
            source_logs=logs.offsets,
            read_to=logs.read_to,
        )
        mapped = self._mappings.mapped
        self._both_sides.catch_up(mapped.values(), self._patience, topics={tp.topic for tp in mapped})
        other_way = self._both_sides.other_way
        own = without_others(groups, self._mappings.others)
        answers = translate_groups(
            own,
            lambda tp, lowest, _: self._mappings.map_of(tp, lowest),
            self._mappings.routing,
            copied,
            self._pipeline.groups.offset_guard_prefix,
            other_way,
        )
        beside = unknown_beside_others(answers, groups, self._mappings.others, copied.topic_ids)
        if self._one_mapping:
            ensure_one_mapping_each(answers, self._mappings.mapped, self._mappings.others_of, self._target)
        # Records that were mapped after L was taken can be read by now.
        now = self._target.led_offsets(copied.ends, "stable").offsets
        ends = {tp: Ends(at.start, max(at.end, now.get(tp, at.end))) for tp, at in copied.ends.items()}
        offline = {**copied.offline_partitions, **without_end, **logs.offline}
        shared = self._shared(answers, copied.topic_ids, other_way) if other_way else {}
        unknown = {at: target for at, (target, state) in shared.items() if state is TranslationState.UNKNOWN}
        return TranslatedGroups(
            answers,
            source_ends,
            ends,
            offline,
            self._not_begun(own),
            unproven={at: why for at, target in unknown.items() if (why := self._both_sides.why_unknown(target))}
            | beside
            | self._lost(answers)
            | _of_other_logs(answers, logs),
            repeated_back=frozenset(
                at for at, (target, _) in shared.items() if other_way and not other_way.is_exactly_once(target)
            ),
            mapped_ends=self._mappings.mapped_ends(),
            records_read=self._mappings.records_read,
        )

    @property
    def source_cluster(self) -> str:
        """Id of the source cluster whose mappings these are."""
        return self._mappings.source_cluster

    def close(self) -> None:
        """Closes the clients."""
        self._mappings.close()
        self._both_sides.close()

    def __enter__(self) -> PositionTranslator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _not_begun(self, groups: Mapping[str, GroupOffsets]) -> frozenset[TopicPartition]:
        standing = {tp for group in groups.values() for tp in group.offsets}
        matches = self._pipeline.selection.matches
        return frozenset(tp for tp in standing - self._mappings.known if matches(tp.topic))

    def _shared(
        self, answers: Mapping[str, Sequence[Answer]], topic_ids: Mapping[str, str], other_way: OtherWay
    ) -> dict[TopicPartition, tuple[Target, TranslationState]]:
        """The target partitions with an answer that others write to, each with the worst state, which is unknown."""
        sources = {tp for tp, source in self._mappings.mapped.items() if other_way.concerns(source)}
        found: dict[TopicPartition, tuple[Target, TranslationState]] = {}
        for answer in (answer for of_group in answers.values() for answer in of_group):
            at = answer.target
            is_known_bad = at in found and found[at][1] is TranslationState.UNKNOWN
            if not is_known_bad and any(tp in sources for tp, _ in answer.sources):
                found[at] = Target(at.topic, topic_ids.get(at.topic, ""), at.partition), answer.state
        return found

    def _lost(self, answers: Mapping[str, Sequence[Answer]]) -> dict[TopicPartition, str]:
        """The target partitions with an unknown answer that have lost copies, with the reason and what to do."""
        cuts = {
            TopicPartition(at.topic, at.partition): cut
            for tp in self._mappings.mapped
            for at, cut in self._mappings.cuts_of(tp).items()
        }
        unknown = (each.target for of_group in answers.values() if cuts for each in of_group if _is_unknown(each))
        return {at: _words_of_lost(at, cuts[at]) for at in unknown if at in cuts}


def _of_other_logs(answers: Mapping[str, Sequence[Answer]], logs: LogEnds) -> dict[TopicPartition, str]:
    """The target partitions with an answer that is unknown for what the source has lost, with the reason."""
    unknown = (each for of_group in answers.values() for each in of_group if _is_unknown(each))
    return {each.target: why for each in unknown for at in each.sources if (why := logs.why_unknown(*at))}


def _is_unknown(answer: Answer) -> bool:
    return answer.state is TranslationState.UNKNOWN


def _words_of_lost(target: TopicPartition, cut: int) -> str:
    return (
        f"{target} was truncated at offset {cut}, and copies behind it are lost: where a group continues that has not "
        "read them is not known. 'k2k status' shows how to go on as soon as the copy has noticed it"
    )
