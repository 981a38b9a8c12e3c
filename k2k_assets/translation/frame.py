"""Translates a column of offsets in a PySpark DataFrame; adds the translated offsets and their states.

    answers = translate_frame(frame, "pipeline.yaml")       # frame: topic string, partition int, offset long

The runs do not go through the driver: each task reads the ones that it needs from the index's Parquet files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, LongType, ShortType, StringType, StructType

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import IndexReader
from k2k_assets.mapping.index.manifest import Manifest
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets.mapping.index.versions import open_version
from k2k_assets.mapping.live.copied_positions import CopiedPositions
from k2k_assets.mapping.live.not_indexed import AS_INDEXED, MappedFrom, mapped_from
from k2k_assets.mapping.live.target_cuts import earliest, told_by_stop
from k2k_assets.pipeline import Pipeline
from k2k_assets.translation.frame_tasks import ASKED, MOST_RUNS, FrameTask, added_fields
from k2k_assets.translation.routes import Routes, answering, newest_ids, routes
from k2k_assets.translation.source_logs import SourceLogs, told_by_stops
from k2k_assets.translation.translator import TIMEOUT, PipelineFiles, loaded

_NUMBERS = (ShortType, IntegerType, LongType)
_OFFSET_BITS = 47
# At most so many tasks share the rows of one partition: more would load its runs more often.
_TASKS_OF_ONE = 4


@dataclass(frozen=True, slots=True)
class FrameIndex:
    """One version of an index and the routes: the input of the tasks.

    Attributes:
        root: Directory of the index, which every executor must be able to read.
        manifest: Manifest of the version.
        routes: The routes of the pipeline.
        source_logs: Up to where each source partition is the one that was copied, as far as that is known.
        cuts: Target offset from which on copies are lost if any are there, by target partition.
        mapped_from: From where on newer mapping records answer (`not_indexed.mapped_from`).
        copied: As for `IndexMaps`.
    """

    root: IndexRoot
    manifest: Manifest
    routes: Routes
    source_logs: Mapping[TopicPartition, int] = field(default_factory=dict)
    cuts: Mapping[Target, int] = field(default_factory=dict)
    mapped_from: Mapping[SourcePartition, MappedFrom] = field(default_factory=dict)
    copied: Mapping[SourcePartition, CommitRecord] = field(default_factory=dict)


def translate_frame(frame: DataFrame, pipeline: PipelineFiles, *, reverse: bool = False) -> DataFrame:
    """Translates positions with the present version of the mapping index.

    Positions that were copied after the index was last updated are `ahead`: materialize `offset_mappings` first.

    Args:
        frame: A frame with the columns `topic` (string), `partition` and `offset` (whole numbers): next offsets to read
            on the source, with `reverse` on the target. Other columns are kept.
        pipeline: A pipeline, or its file or files.
        reverse: Whether to translate from the target back to the source.

    Returns:
        The rows, in no particular order, with `target_topic`, `target_partition`, `target_offset` (null where there is
        no answer) and `state`; with `reverse` `source_topic` and so on. If a partition goes to several (`partition:
        producer`), or with `reverse` comes from several, there is a row for each of them.

    Raises:
        Refused: A column is missing, a column of the result exists already, or both sides are written (bidirectional).
        IndexUnusable: There is no index.
        ClusterUnreachable: The cluster of the result does not answer.
    """
    found = loaded(pipeline)
    if found.shares_targets:
        raise Refused(
            f"pipeline {found.name} is bidirectional: of the records that are written on the other side the index says "
            "nothing, so a column of offsets cannot be translated. Use translate_offsets, translate_checkpoint or "
            "'k2k-tool translate'; they read the mappings of both directions"
        )
    root, manifest, portions = open_version(found)
    with both_clusters(found, TIMEOUT) as (source, target):
        reachable = answering(source, needed=reverse)
        known = routes(found, manifest.source_cluster, copied_last(manifest), reachable, target)
        # The index was read before; so each copy that it knows and that is still there lies below these ends.
        ends = target.led_offsets(known.target.starts, "latest").offsets
        copied = _copied(found, target, manifest)
        known = known.as_noted(copied.values())
        anew = mapped_from(found, IndexReader.of(root, manifest, portions), target, TIMEOUT)
        logs = source_logs(found, reachable, manifest, known, copied)
    cuts = {at: end for tp, end in ends.items() if (at := known.target_partition(*tp))}
    cuts = earliest(cuts, *map(told_by_stop, copied.values()))
    # A task asks for the commit records of these only; there may be many others.
    doubted = {source: record for source, record in copied.items() if anew.get(source, AS_INDEXED).is_doubtful}
    return translated(frame, FrameIndex(root, manifest, known, logs, cuts, anew, doubted), reverse)


def source_logs(
    pipeline: Pipeline,
    source: Cluster | None,
    manifest: Manifest,
    known: Routes,
    copied: Mapping[SourcePartition, CommitRecord],
) -> dict[TopicPartition, int]:
    """Up to where each source partition is the one whose copies the index maps, as far as that is known.

    Args:
        pipeline: The pipeline.
        source: The source cluster; None if it does not answer.
        manifest: Manifest of the index.
        known: The routes.
        copied: The newest commit record of each source partition.
    """
    of_today = {record.source: record for at, record in copied.items() if known.source.ids.get(at.topic) == at.topic_id}
    if source is None:
        return told_by_stops(of_today)
    indexed = {
        TopicPartition(each.topic, each.partition): each
        for each in manifest.positions
        if known.source.ids.get(each.topic) == each.source_topic_id
    }
    return SourceLogs(pipeline, source).ends(known.source.starts, of_today, indexed=indexed).offsets


def _copied(pipeline: Pipeline, target: Cluster, manifest: Manifest) -> Mapping[SourcePartition, CommitRecord]:
    """The newest commit record of each source partition: its stop tells where a log was cut off."""
    name = pipeline.coordination.commit.topic
    topic = target.describe([name]).get(name)
    if topic is None:
        return {}
    with closing(CopiedPositions(pipeline, manifest.source_cluster, topic, target)) as copied:
        copied.read(TIMEOUT)
        return copied.newest()


def copied_last(manifest: Manifest) -> dict[str, str]:
    """The id of each topic under which it was copied last.

    If a topic was created anew with fewer partitions, there are positions under both ids.
    """
    cluster = manifest.source_cluster
    return newest_ids(
        (SourcePartition(cluster, p.topic, p.source_topic_id, p.partition), (p.generation, p.sequence))
        for p in manifest.positions
    )


def translated(frame: DataFrame, index: FrameIndex, reverse: bool = False) -> DataFrame:
    """Does the work of `translate_frame` with a given index."""
    added = from_arrow_schema(pa.schema(added_fields(reverse)))
    _ensure_columns(frame, added.names)
    if index.manifest.runs > MOST_RUNS:
        frame = _by_partition(frame)
    task = FrameTask(
        index.root,
        index.manifest,
        index.routes,
        reverse,
        index.source_logs,
        index.cuts,
        index.mapped_from,
        index.copied,
    )

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        return task.run(batches)

    return frame.mapInArrow(run, StructType([*frame.schema.fields, *added.fields]))


def _by_partition(frame: DataFrame) -> DataFrame:
    """Sorts the rows, so that each task sees one partition after the other, each from its lowest offset on.

    Then a task holds the runs of few partitions at a time, and neighbouring rows are looked up in neighbouring runs.
    """
    offset = F.col("offset").cast("long")
    # One number as sort key, because Spark can radix-sort it; rows of partitions with the same hash are only mixed.
    head = F.shiftleft(F.xxhash64("topic", "partition").bitwiseAND(F.lit(0xFFFF)), _OFFSET_BITS)
    key = head.bitwiseOR(offset.bitwiseAND(F.lit((1 << _OFFSET_BITS) - 1)))
    return frame.repartition("topic", "partition", offset % _TASKS_OF_ONE).sortWithinPartitions(key)


def _ensure_columns(frame: DataFrame, added: Sequence[str]) -> None:
    types = {field.name: type(field.dataType) for field in frame.schema.fields}
    faults = [f"column '{name}' is missing" for name in ASKED if name not in types]
    faults += [f"column '{name}' is there already" for name in added if name in types]
    faults += [f"column '{name}' is no whole number" for name in ASKED[1:] if types.get(name, LongType) not in _NUMBERS]
    if types.get("topic", StringType) is not StringType:
        faults.append("column 'topic' is no string")
    if faults:
        raise Refused(f"the DataFrame cannot be translated: {'; '.join(faults)}")
