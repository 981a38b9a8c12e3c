"""Finds records on the target, between copies, that no run maps: doubled copies, or foreign records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.partition_map import Offsets
from k2k_assets.mapping.index.grouping import groups, numbers

# Unmapped records of one round: far more than are shown, and few enough for the driver.
_MOST = 100_000
_TARGET = ("target_topic", "target_partition")


class Span(NamedTuple):
    """The target offsets that the copies of a piece span in a target partition: start inclusive, end exclusive.

    Attributes:
        topic: Source topic.
        partition: Source partition.
        piece: First source offset of the piece.
        target_topic: Target topic.
        target_topic_id: Target topic id.
        target_partition: Target partition.
        alone: Whether only copies, each once, can lie there.
        start: Target offset of the first copy.
        end: Target offset after the last copy.
    """

    topic: str
    partition: int
    piece: int
    target_topic: str
    target_topic_id: str
    target_partition: int
    alone: bool
    start: int
    end: int

    @property
    def target(self) -> TopicPartition:
        return TopicPartition(self.target_topic, self.target_partition)


def to_read(parts: Iterable[Span]) -> list[Span]:
    """The target offsets to read.

    If only copies can lie there, all offsets that a piece spans are read, which are hardly more than its copies. Else
    only the spans of neighbouring copies are read, because any number of copies of other source partitions may lie
    between these.

    Args:
        parts: Spans of neighbouring copies, several for each piece.
    """
    spans: dict[Span, Span] = {}
    for part in parts:
        piece = part._replace(start=0, end=0) if part.alone else part
        known = spans.get(piece, part)
        spans[piece] = part._replace(start=min(known.start, part.start), end=max(known.end, part.end))
    return list(spans.values())


def unmapped(
    spans: Sequence[Span], pairs: DataFrame, on_target: DataFrame, runs: DataFrame, most: int = _MOST
) -> list[tuple[Span, int]]:
    """Finds the records within spans that no run maps, with their target offsets; of very many only some.

    Args:
        spans: Spans in target topics that exist today.
        pairs: The mapped records of the spans' pieces; columns `target_topic`, `target_partition`, `target_offset`.
        on_target: The records read on the target, columns `digests.DIGESTS`; some may lie outside the spans.
        runs: All runs of the index, columns `mapping.index.schemas.RUNS`, because several source partitions may feed
            one target partition.
        most: Records to look at where only copies can lie, and as many elsewhere.
    """
    read = on_target.select(
        F.col("topic").alias("target_topic"),
        F.col("partition").alias("target_partition"),
        F.col("offset").alias("target_offset"),
    )
    beside = read.join(pairs, read.columns, "left_anti")
    # Far more records may lie beside the spans than within: they were read because they are near.
    alone, others = (_within(beside, [span for span in spans if span.alone is is_alone]) for is_alone in (True, False))
    left = alone.limit(most).unionByName(others.limit(most)).distinct().toArrow()
    by_target: dict[TopicPartition, list[Span]] = defaultdict(list)
    for span in spans:
        by_target[span.target].append(span)
    found = [
        each
        for target, offsets in _by_partition(left, "target_offset").items()
        for each in within(by_target[target], offsets)
    ]
    return _of_no_run(found, runs) if found else []


def _within(records: DataFrame, spans: Iterable[Span]) -> DataFrame:
    """The records that lie in one of some spans; columns `_TARGET` and `target_offset`."""
    rows = [(*span.target, span.start, span.end) for span in spans]
    ranges = records.sparkSession.createDataFrame(rows, "to_topic string, to_partition int, first long, after long")
    is_in = (
        (F.col("target_topic") == F.col("to_topic"))
        & (F.col("target_partition") == F.col("to_partition"))
        & (F.col("target_offset") >= F.col("first"))
        & (F.col("target_offset") < F.col("after"))
    )
    return records.join(F.broadcast(ranges), is_in, "left_semi")


def _of_no_run(found: Sequence[tuple[Span, int]], runs: DataFrame) -> list[tuple[Span, int]]:
    ids = {span.target_topic: span.target_topic_id for span, _ in found}
    into = runs.where(F.col("target_topic").isin(*ids) & F.col("target_topic_id").isin(*ids.values()))
    offsets: dict[TopicPartition, set[int]] = defaultdict(set)
    for span, offset in found:
        offsets[span.target].add(offset)
    wanted = {target: np.array(sorted(of_target)) for target, of_target in offsets.items()}

    def holding(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from runs_holding(wanted, pa.Table.from_batches([batch])).to_batches()

    # Filtered on the executors, because the driver cannot hold all runs; at most one run is left for each offset.
    bare = into.select(*_TARGET, "target_start", "count")
    mapped = _mapped(bare.mapInArrow(holding, bare.schema).toArrow())
    return [(span, offset) for span, offset in found if not _is_mapped(mapped.get(span.target, ()), offset)]


def runs_holding(offsets: Mapping[TopicPartition, Offsets], runs: pa.Table) -> pa.Table:
    """The runs that map a record to one of some target offsets.

    Args:
        offsets: Rising offsets of target partitions.
        runs: Runs, in any order.
    """
    runs = runs.sort_by([(name, "ascending") for name in _TARGET])
    holds = np.zeros(len(runs), bool)
    for a, b in pairwise(groups(runs, _TARGET)):
        of_target = offsets.get(TopicPartition(*(runs[name][a].as_py() for name in _TARGET)))
        if of_target is not None:
            starts, counts = (numbers(runs[name].slice(a, b - a)) for name in ("target_start", "count"))
            holds[a:b] = np.searchsorted(of_target, starts) < np.searchsorted(of_target, starts + counts)
    return runs.filter(pa.array(holds))


def _by_partition(rows: pa.Table, column: str) -> dict[TopicPartition, Offsets]:
    """The values of a column by target partition, rising."""
    rows = rows.sort_by([(name, "ascending") for name in (*_TARGET, column)])
    return {
        TopicPartition(*(rows[name][a].as_py() for name in _TARGET)): numbers(rows[column].slice(a, b - a))
        for a, b in pairwise(groups(rows, _TARGET))
    }


def _mapped(runs: pa.Table) -> Mapping[TopicPartition, tuple[Offsets, Offsets]]:
    """Starts and ends of the runs in each target partition, rising; runs of different sources are disjoint, too."""
    ends = runs.append_column("end", pa.chunked_array([numbers(runs["target_start"]) + numbers(runs["count"])]))
    starts = _by_partition(runs, "target_start")
    return {target: (starts[target], of_target) for target, of_target in _by_partition(ends, "end").items()}


def within(spans: Iterable[Span], offsets: Offsets) -> list[tuple[Span, int]]:
    """Assigns each offset to one span that contains it, preferably one in which only copies can lie.

    Args:
        spans: Spans in one target partition.
        offsets: Rising offsets; those in no span are left out.
    """
    found: list[tuple[Span, int]] = []
    for span in sorted(spans, key=lambda span: not span.alone):
        first, last = np.searchsorted(offsets, [span.start, span.end]).tolist()
        if first < last:
            found += [(span, offset) for offset in offsets[first:last].tolist()]
            offsets = np.delete(offsets, slice(first, last))
    return found


def _is_mapped(mapped: tuple[Offsets, Offsets] | tuple[()], offset: int) -> bool:
    if not mapped:
        return False
    starts, ends = mapped
    run = int(np.searchsorted(starts, offset, side="right")) - 1
    return run >= 0 and offset < int(ends[run])
