"""Translates single positions with the present mappings: the index, and newer records of the mapping topic.

    with OffsetTranslator.open("pipeline.yaml") as translator:
        for answer in translator.translate("orders", 3, [1200, 1201]):
            print(answer.offset, "->", answer.to_offset, answer.state)

It needs no Spark. For columns of offsets there is `translate_frame`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import HIGHEST_OFFSET, TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.algebra.partition_map import Offsets, SourcePartition
from k2k_assets.mapping.algebra.translate import STATE_LABELS
from k2k_assets.mapping.index import IndexReader, IndexUnusable
from k2k_assets.mapping.live.live import Cut, LiveMappings
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.translation.answers import (
    PositionAnswers,
    before_cut_off,
    both_ways_back,
    nowhere,
    on_source,
    on_target,
)
from k2k_assets.translation.both_sides import BothSides
from k2k_assets.translation.other_way import OtherWay
from k2k_assets.translation.routes import Routes, answering, newest_ids, routes
from k2k_assets.translation.source_logs import SourceLogs, told_by_stops

PipelineFiles = Pipeline | str | Path | Sequence[str | Path]
"""A pipeline, the path of its file, or the paths of the files that are merged into one."""


TIMEOUT = 10.0
"""Longest time for a call to a cluster, in seconds."""


class TranslatedOffset(NamedTuple):
    """One position, and its translation.

    Attributes:
        topic: The given topic.
        partition: The given partition.
        offset: The given position: the next offset to read.
        to_topic: Topic on the other side; None if the partition is not replicated.
        to_partition: Partition on the other side; None if the partition is not replicated.
        to_offset: Next offset to read there; None if there is no answer.
        state: `exact`, `ahead`, `unknown`, `not replicated`, `expired` or `may be read again`; see docs/offsets.md.
        dropped_by: Rule by which the source record at the position was left out on purpose; the answer is the next
            record that was copied. None if it was not left out.
        read_again: Number of records that are read again, as far as the mappings tell; only where both sides are
            written.
    """

    topic: str
    partition: int
    offset: int
    to_topic: str | None
    to_partition: int | None
    to_offset: int | None
    state: str
    dropped_by: str | None = None
    read_again: int = 0


def translate_offsets(
    pipeline: PipelineFiles, topic: str, partition: int, offsets: Iterable[int], *, reverse: bool = False
) -> list[TranslatedOffset]:
    """Translates positions of one partition, with the present mappings.

    Args:
        pipeline: A pipeline, or its file or files.
        topic: Source topic; with `reverse` target topic.
        partition: Partition of the topic.
        offsets: Positions: next offsets to read.
        reverse: Whether to translate from the target back to the source.

    Returns:
        The answers in the order of the offsets. If the partition goes to several (`partition: producer`), or with
        `reverse` comes from several, there is an answer for each of them.

    Raises:
        Refused: The pipeline does not copy the topic, or there are no mappings.
        ClusterUnreachable: A cluster that is needed does not answer.
    """
    with OffsetTranslator.open(pipeline) as translator:
        ask = translator.translate_back if reverse else translator.translate
        return ask(topic, partition, offsets)


def loaded(pipeline: PipelineFiles) -> Pipeline:
    """Returns a pipeline, which is loaded if files are given."""
    if isinstance(pipeline, Pipeline):
        return pipeline
    return load_pipeline([Path(pipeline)] if isinstance(pipeline, str | Path) else [Path(path) for path in pipeline])


@dataclass
class OffsetTranslator:
    """Translates single positions with the mappings of a pipeline at one moment.

    Attributes:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        mappings: The mappings, with all records that were committed when this was opened.
        routes: The routes of the pipeline.
        cut: Log starts and last stable offsets of the target partitions.
        other_way: The mappings of the reverse pipeline, where records are written on the target as well; else None.
        reverse_cut: Log starts and last stable offsets of the source partitions at the cut of these.
    """

    pipeline: Pipeline
    source: Cluster
    target: Cluster
    mappings: LiveMappings
    routes: Routes
    cut: Cut
    other_way: OtherWay | None = None
    reverse_cut: Cut | None = None

    @classmethod
    @contextmanager
    def open(cls, pipeline: PipelineFiles, *, of_records: bool = False) -> Iterator[OffsetTranslator]:
        """Reads the mappings to their end.

        If the source does not answer and there is an index, the topic ids of the last copy count as the present ones.

        Args:
            pipeline: A pipeline, or its file or files.
            of_records: Whether copies of records are looked for, and not positions of readers: then it does not matter
                what others wrote to the target.

        Raises:
            Refused: There is no mapping topic.
            ClusterUnreachable: The target does not answer; or the source does not, and there is no index.
        """
        found = loaded(pipeline)
        with ExitStack() as stack:
            source, target = stack.enter_context(both_clusters(found, TIMEOUT))
            reachable = answering(source, needed=False)
            cluster = reachable.cluster_id() if reachable else _cluster_of_index(found)
            mappings = stack.enter_context(LiveMappings(found, cluster, target, with_dropped=True))
            mappings.catch_up(())
            copied = newest_ids((partition, record.order) for partition, record in mappings.copied().items())
            known = routes(found, cluster, copied, reachable, target)
            cut = mappings.catch_up(set(known.targets.values()))
            # Known by the cut: who copies at least once says so before the first copy.
            known = known.as_noted(mappings.copied().values())
            if of_records:
                yield cls(found, source, target, mappings, known, cut)
                return
            sides = BothSides(found, source, target, mappings)
            stack.callback(sides.close)
            reverse_cut = sides.catch_up(mappings.sources(), topics=set(known.targets), reachable=bool(reachable))
            yield cls(found, source, target, mappings, known, cut, sides.other_way, reverse_cut)

    def translate(self, topic: str, partition: int, offsets: Iterable[int]) -> list[TranslatedOffset]:
        """Translates positions on the source to positions on the target; see `translate_offsets`."""
        positions = _positions(offsets)
        source = self.ensure_copied(topic, partition)
        mapping = self.mappings.map_of(source, 0 if self.other_way else int(positions.min(initial=0)))
        asked = TopicPartition(topic, partition)
        end = self.source_logs([asked]).get(asked)
        found = on_target(self.routes, mapping, positions, end, self.other_way, self.cut.stable)
        rows = _rows(asked, positions, found)
        return [row._replace(dropped_by=mapping.rule_at(row.offset)) for row in rows]

    def translate_back(self, topic: str, partition: int, offsets: Iterable[int]) -> list[TranslatedOffset]:
        """Translates positions on the target back to positions on the source; see `translate_offsets`."""
        positions = _positions(offsets)
        asked = TopicPartition(topic, partition)
        sources = self.ensure_copied_to(topic)
        target = self.routes.target_partition(topic, partition)
        if target is None:
            return _rows(asked, positions, [nowhere(len(positions))])
        maps = [self.mappings.map_of(source, 0) for source in self.partitions_of(sources)]
        mapped_to = self.cut.stable.get(asked)
        if self.other_way is None or not any(self.other_way.concerns(mapping.source) for mapping in maps):
            found = on_source(self.routes, maps, target, positions, mapped_to)
        else:
            stable = self.reverse_cut.stable if self.reverse_cut else {}
            # Read after the cut of the mappings back: then unmapped copies on the source are of records below it.
            end = self.end_of(topic, partition, reverse=True)
            found = both_ways_back(self.routes, maps, target, positions, self.other_way, stable, end)
        logs = self.source_logs({answer.place for answer in found if answer.place})
        return _rows(asked, positions, [before_cut_off(answer, logs) for answer in found])

    def source_logs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Up to where source partitions are those that were copied, as far as that is known (`SourceLogs.ends`)."""
        copied = self._commit_records()
        if not self.routes.source.starts:
            return told_by_stops(copied)
        return SourceLogs(self.pipeline, self.source).ends(partitions, copied).offsets

    def source_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """High watermarks of source partitions that have a leader; empty if the source did not answer."""
        return self.source.led_offsets(partitions, "latest").offsets if self.routes.source.starts else {}

    def _commit_records(self) -> dict[TopicPartition, CommitRecord]:
        """The newest commit record of each source partition under its topic id of today."""
        today = self.routes.source.ids
        return {
            record.source: record
            for source, record in self.mappings.copied().items()
            if today.get(source.topic) == source.topic_id
        }

    def offset_at(self, topic: str, partition: int, timestamp: int, *, reverse: bool = False) -> int:
        """The first offset whose record is not older than a time; the end of the log if there is no such record.

        Args:
            topic: Source topic; with `reverse` target topic.
            partition: Partition of the topic.
            timestamp: Milliseconds since the epoch.
            reverse: Whether to ask the target.

        Raises:
            Refused: The partition does not exist.
            ClusterUnreachable: The cluster does not answer.
        """
        cluster = self.target if reverse else self.source
        offset = cluster.offset_at(TopicPartition(topic, partition), timestamp)
        if offset is None:
            raise Refused(f"partition {topic}-{partition} does not exist on the {cluster}")
        return offset

    def end_of(self, topic: str, partition: int, *, reverse: bool = False) -> int | None:
        """The high watermark of a partition; None if it is not known.

        Args:
            topic: Source topic; with `reverse` target topic.
            partition: Partition of the topic.
            reverse: Whether to ask the target.
        """
        asked = TopicPartition(topic, partition)
        if not reverse:
            return self.source_ends([asked]).get(asked)
        return self.target.led_offsets([asked], "latest").offsets.get(asked)

    def ensure_copied(self, topic: str, partition: int = 0) -> SourcePartition:
        """Returns a copied source partition with its topic id.

        Raises:
            Refused: The topic was never copied, or may not be seen.
        """
        if why := self.routes.why_hidden([topic]):
            raise why
        source = self.routes.source_partition(topic, partition) if topic in self.routes.targets else None
        if source is None:
            raise Refused(_not_copied("source", topic, self.routes.targets, self.pipeline))
        return source

    def ensure_copied_to(self, topic: str) -> list[str]:
        """Returns the source topics of a target topic.

        Raises:
            Refused: No topic was copied to it, or one of them may not be seen.
        """
        sources = self.routes.sources_of(topic)
        if why := self.routes.why_hidden(sources):
            raise why
        if not sources:
            raise Refused(_not_copied("target", topic, set(self.routes.targets.values()), self.pipeline))
        return sources

    def partitions_of(self, topics: Iterable[str]) -> list[SourcePartition]:
        """The copied partitions of source topics, with today's topic ids."""
        ids = {(topic, self.routes.source.ids.get(topic)) for topic in topics}
        sources = [source for source in self.mappings.sources() if (source.topic, source.topic_id) in ids]
        return [source for source in sources if not self._is_gone(source)]

    def _is_gone(self, source: SourcePartition) -> bool:
        """Whether the topic was created anew without it: accepted by hand, it has a position there, and no copies."""
        there = self.routes.source
        at = TopicPartition(source.topic, source.partition)
        is_known = at in there.starts or at in there.offline_partitions or not there.starts
        return not is_known and not self.mappings.map_of(source, 0).runs


def _cluster_of_index(pipeline: Pipeline) -> str:
    try:
        return IndexReader.open(pipeline).manifest.source_cluster
    except IndexUnusable as error:
        raise ClusterUnreachable(
            f"the source cluster does not answer, and nothing else says what its id is: {error}"
        ) from None


def _positions(offsets: Iterable[int]) -> Offsets:
    try:
        positions = np.fromiter(offsets, dtype=np.int64)
    except OverflowError:
        raise Refused(f"an offset is a number of 0 to {HIGHEST_OFFSET}") from None
    if len(positions) and positions.min() < 0:
        raise Refused(
            f"{positions.min()} is no offset. The logical ones (-1 latest, -2 earliest) mean the same on both sides"
        )
    return positions


def _not_copied(side: str, topic: str, known: Iterable[str], pipeline: Pipeline) -> str:
    listed = ", ".join(f"'{name}'" for name in sorted(known)[:10]) or "none"
    return (
        f"the {side} topic '{topic}' has no mappings in pipeline '{pipeline.name}' (group '{pipeline.group}'). "
        f"Topics that have: {listed}. Nothing of it was copied yet, or it is not selected."
    )


def _rows(asked: TopicPartition, positions: Offsets, answers: Sequence[PositionAnswers]) -> list[TranslatedOffset]:
    rows: list[TranslatedOffset] = []
    for n, position in enumerate(positions.tolist()):
        for place, offsets, states, again in answers:
            topic, partition = place or (None, None)
            offset = int(offsets[n])
            found = offset if offset >= 0 else None
            count = 0 if again is None else int(again[n])
            rows.append(
                TranslatedOffset(*asked, position, topic, partition, found, STATE_LABELS[states[n]], read_again=count)
            )
    return rows
