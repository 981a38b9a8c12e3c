"""Translates the checkpoint of a Spark query, or of any reader that keeps its own offsets.

A checkpoint has all positions of one reader. So if several partitions feed one, their positions are combined, and no
record is skipped. Partitions of its topics that it does not name count as unread, as in Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS, TopicPartition
from k2k_assets.kafka.groups import CommittedOffset, Ends, GroupOffsets
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.algebra.spread import combine_back
from k2k_assets.mapping.algebra.translate import (
    NO_OFFSET,
    STATE_LABELS,
    Translated,
    TranslationState,
    may_repeat,
    translate_back,
)
from k2k_assets.translation import spark_offsets
from k2k_assets.translation.groups import CopiedAtCut, translate_groups
from k2k_assets.translation.log_ends import before_end
from k2k_assets.translation.routes import Routes
from k2k_assets.translation.translator import OffsetTranslator, PipelineFiles

_READER = "the reader"


@dataclass(frozen=True, slots=True)
class TranslatedPartition:
    """The reader's translated position in one partition.

    Attributes:
        partition: The partition on the other side.
        offset: Next offset to read there; None if there is no answer.
        state: The state, as in `TranslatedOffset`.
        sources: The partitions that it is translated from, each with the reader's position.
    """

    partition: TopicPartition
    offset: int | None
    state: str
    sources: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class TranslatedCheckpoint:
    """The translated checkpoint of a reader.

    Attributes:
        partitions: All partitions of the topics on the other side, in order.
    """

    partitions: tuple[TranslatedPartition, ...]

    @property
    def complete(self) -> bool:
        """Whether there is an answer for every partition."""
        return all(row.offset is not None for row in self.partitions)

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Next offset to read in each partition that has an answer."""
        return {row.partition: row.offset for row in self.partitions if row.offset is not None}

    def spark_json(self) -> str:
        """The offsets as Spark writes them, for `startingOffsets`."""
        return spark_offsets.render(self.offsets)


def translate_checkpoint(
    pipeline: PipelineFiles, offsets: Mapping[TopicPartition, int] | str, *, reverse: bool = False
) -> TranslatedCheckpoint:
    """Translates all positions of one reader.

    Args:
        pipeline: A pipeline, or its file or files.
        offsets: Next offset to read in each partition; or Spark's JSON, or the text of a checkpoint's offsets file.
        reverse: Whether to translate from the target back to the source.

    Raises:
        Refused: The text has no such offsets, the pipeline does not copy one of the topics, or there are no mappings.
        ClusterUnreachable: A cluster that is needed does not answer.
    """
    positions = spark_offsets.parse(offsets, "the text") if isinstance(offsets, str) else dict(offsets)
    with OffsetTranslator.open(pipeline) as translator:
        return checkpoint_back(translator, positions) if reverse else checkpoint(translator, positions)


def checkpoint(translator: OffsetTranslator, positions: Mapping[TopicPartition, int]) -> TranslatedCheckpoint:
    """Translates a reader's positions on the source to positions on the target."""
    routes = translator.routes
    topics = sorted({tp.topic for tp in positions})
    for topic in topics:
        translator.ensure_copied(topic)
    # Source partitions of other topics are included: they may share a target partition with these.
    sources = {TopicPartition(s.topic, s.partition): s for s in translator.partitions_of(routes.targets)}
    own = {tp for tp in sources if tp.topic in topics}
    asked = {tp: CommittedOffset(positions.get(tp, 0)) for tp in own | set(positions)}
    found = translate_groups(
        {_READER: GroupOffsets(_READER, asked)},
        lambda tp, lowest, _: translator.mappings.map_of(sources[tp], lowest),
        translator.pipeline.routing,
        _copied(translator, sources),
        translator.pipeline.groups.offset_guard_prefix,
        translator.other_way,
    )
    starts = translator.cut.starts
    rows = {}
    for answer in found.get(_READER, ()):
        come_from = {tp: committed.offset for tp, committed in answer.sources}
        rows[answer.target] = _row(answer.target, answer.offset, answer.state, come_from, starts)
    # In partitions that no source partition feeds, the reader has nothing to skip.
    targets = {routes.targets[topic] for topic in topics}
    unfed = {tp for tp in starts if tp.topic in targets} - set(rows)
    rows |= {tp: _row(tp, starts[tp], TranslationState.EXACT, {}, starts) for tp in unfed}
    offline = {tp for tp in translator.cut.offline_partitions if tp.topic in targets} - set(rows)
    rows |= {tp: _row(tp, NO_OFFSET, TranslationState.UNKNOWN, {}, starts) for tp in offline}
    return _found(rows.values(), topics)


def checkpoint_back(translator: OffsetTranslator, positions: Mapping[TopicPartition, int]) -> TranslatedCheckpoint:
    """Translates a reader's positions on the target back to positions on the source."""
    routes = translator.routes
    topics = sorted({tp.topic for tp in positions})
    for topic in topics:
        translator.ensure_copied_to(topic)
    rows = []
    sources = _all_partitions(translator, {topic for name in topics for topic in routes.sources_of(name)})
    logs = translator.source_logs([TopicPartition(source.topic, source.partition) for source in sources])
    for source in sources:
        mapping = translator.mappings.map_of(source, 0)
        read = _read(translator, mapping, positions)
        offset, state = _back(translator, mapping, read)
        place = TopicPartition(source.topic, source.partition)
        offset, state = _before_end(offset, state, logs.get(place))
        if place in routes.source.offline_partitions:
            offset, state = NO_OFFSET, TranslationState.UNKNOWN
        come_from = {TopicPartition(target.topic, target.partition): at for target, at in read.items()}
        rows.append(_row(place, offset, state, come_from, routes.source.starts))
    return _found(rows, topics)


def _found(rows: Iterable[TranslatedPartition], topics: Sequence[str]) -> TranslatedCheckpoint:
    partitions = tuple(sorted(rows, key=lambda row: row.partition))
    if not partitions:
        raise Refused(
            f"nothing was copied between the topics as they are now, of {', '.join(topics) or 'no topic at all'}: "
            "the topics on one side do not exist, or were created anew"
        )
    return TranslatedCheckpoint(partitions)


def _copied(translator: OffsetTranslator, sources: Mapping[TopicPartition, SourcePartition]) -> CopiedAtCut:
    commits, cut = translator.mappings.copied(), translator.cut
    positions = {tp: commits[source].position for tp, source in sources.items() if source in commits}
    ends = {tp: Ends(cut.starts[tp], stable) for tp, stable in cut.stable.items()}
    unmapped = {tp for tp in sources if translator.routes.is_at_least_once(tp)}
    now = translator.source_ends(unmapped)
    source_ends = {tp: now.get(tp, BEYOND_ALL_LOGS) for tp in unmapped}
    logs = translator.source_logs(sources)
    return CopiedAtCut(positions, ends, cut.topic_ids, source_ends, logs, cut.offline_partitions)


def _all_partitions(translator: OffsetTranslator, topics: Collection[str]) -> list[SourcePartition]:
    """The partitions of source topics, also those of which copying has not begun: Spark wants to know of each."""
    copied, there = translator.partitions_of(topics), translator.routes.source
    begun = {TopicPartition(source.topic, source.partition) for source in copied}
    others = {tp for tp in (*there.starts, *there.offline_partitions) if tp.topic in topics} - begun
    cluster = translator.routes.cluster
    return [*copied, *(SourcePartition(cluster, tp.topic, there.ids[tp.topic], tp.partition) for tp in sorted(others))]


def _read(
    translator: OffsetTranslator, mapping: PartitionMap, positions: Mapping[TopicPartition, int]
) -> dict[Target, int]:
    """The reader's position in each target partition that a source partition goes to; 0 where it has read nothing."""
    routes, source = translator.routes, mapping.source
    topic = routes.targets[source.topic]
    of_today = routes.target.ids.get(topic)
    targets = [target for target in mapping.runs if (target.topic, target.topic_id) == (topic, of_today)]
    if not mapping.runs and of_today is not None and routes.keeps_partition(source.topic):
        targets = [Target(topic, of_today, source.partition)]  # where its first record will go
    return {target: positions.get(TopicPartition(target.topic, target.partition), 0) for target in targets}


def _back(translator: OffsetTranslator, mapping: PartitionMap, read: Mapping[Target, int]) -> tuple[int, int]:
    if translator.other_way and translator.other_way.concerns(mapping.source):
        return _both_ways_back(translator, mapping, read)
    if not mapping.runs:
        offset, state = _log_start(translator, mapping)
    elif len(read) != 1:
        offset, state = combine_back(mapping, read)
    else:
        ((target, position),) = read.items()
        stable = translator.cut.stable.get(TopicPartition(target.topic, target.partition))
        back = translate_back(mapping, target, np.array([position]), stable)
        offset, state = int(back.offsets[0]), TranslationState(int(back.states[0]))
    repeats = state is TranslationState.EXACT and _may_repeat(translator.routes, mapping, read)
    return offset, TranslationState.MAY_REPEAT if repeats else state


def _may_repeat(routes: Routes, mapping: PartitionMap, read: Mapping[Target, int]) -> bool:
    source = mapping.source
    below = routes.repeats_below(TopicPartition(source.topic, source.partition))
    if below is None or not routes.is_alone(source.topic):
        return False
    return any(bool(may_repeat(mapping, target, np.array([at]), below)[0]) for target, at in read.items())


def _log_start(translator: OffsetTranslator, mapping: PartitionMap) -> tuple[int, TranslationState]:
    """Where a reader begins in a source partition of which no record was copied, as far as the mappings prove that."""
    start = translator.routes.source.starts.get(TopicPartition(mapping.source.topic, mapping.source.partition))
    if start is None or not mapping.is_whole or mapping.target_began is not None:
        return NO_OFFSET, TranslationState.UNKNOWN
    return start, TranslationState.EXACT


def _before_end(offset: int, state: int, end: int | None) -> tuple[int, int]:
    found = before_end(Translated(np.array([offset]), np.array([state], dtype=np.uint8)), end)
    return int(found.offsets[0]), int(found.states[0])


def _both_ways_back(translator: OffsetTranslator, mapping: PartitionMap, read: Mapping[Target, int]) -> tuple[int, int]:
    if len(read) != 1:
        return NO_OFFSET, TranslationState.UNKNOWN
    ((target, position),) = read.items()
    (found, *_) = translator.translate_back(target.topic, target.partition, [position])
    state = STATE_LABELS.index(found.state)
    return (NO_OFFSET if found.to_offset is None else found.to_offset), state


def _row(
    place: TopicPartition,
    offset: int,
    state: int,
    come_from: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
) -> TranslatedPartition:
    if offset == NO_OFFSET:
        return TranslatedPartition(place, None, STATE_LABELS[state], come_from)
    start = starts.get(place, 0)
    return TranslatedPartition(
        place, max(offset, start), STATE_LABELS[TranslationState.EXPIRED if offset < start else state], come_from
    )
