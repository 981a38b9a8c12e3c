"""Proves stretches in Spark tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.index.grouping import groups, numbers
from k2k_assets.verification.content.by_batches.mapped_offsets import MappedOffsets
from k2k_assets.verification.content.by_batches.proven_parts import CopiedStretch, ProvenPart, Prover

_OF_STRETCH = ("topic", "partition", "piece")
_TARGET = ("target_topic", "target_topic_id", "target_partition")
_NUMBERS = ("source_start", "target_start", "count")
_TASKS = 16
_PARTS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("partition", IntegerType(), False),
        *(
            StructField(name, LongType(), False)
            for name in ("start", "end", "first", "last", "records", "undecoded", "bytes_", "milliseconds")
        ),
        StructField("doubt", StringType(), False),
        StructField("doubt_end", LongType(), False),
    ]
)
_ARROW = to_arrow_schema(_PARTS)
StretchKey = tuple[str, int, int]
"""Source topic, partition, first offset."""


class WantedStretch(NamedTuple):
    """A stretch to prove.

    Attributes:
        order: Its place in the order of importance.
        end: Source offset after it.
        source_id: Topic id of its source topic.
    """

    order: int
    end: int
    source_id: str


class TimeLimit(NamedTuple):
    """How long tasks may take.

    Attributes:
        until: When they end, seconds since the epoch.
        most: Seconds for which a task runs at most, whatever its machine's clock says.
    """

    until: float
    most: float


def proven_parts(
    runs: DataFrame,
    stretches: Mapping[StretchKey, WantedStretch],
    target_ids: Mapping[str, str],
    properties: tuple[Mapping[str, object], Mapping[str, object]],
    limit: TimeLimit,
) -> list[ProvenPart]:
    """Proves as much of some stretches as time allows.

    Args:
        runs: Their runs, clipped to them: `topic`, `partition`, `piece` (the stretch's first offset), and the columns
            of the index on targets and offsets.
        stretches: The stretches.
        target_ids: Today's id of each target topic.
        properties: Consumer settings for source and target, librdkafka names.
        limit: The time limit.
    """
    wanted, ids = dict(stretches), dict(target_ids)

    def prove(batches: Iterable[Any]) -> Iterator[Any]:
        deadline = time.monotonic() + min(limit.until - time.time(), limit.most)
        prover = Prover(*properties, deadline)
        try:
            found = [
                part
                for stretch in copied_stretches(list(batches), wanted, ids)
                for part in ([stretch] if isinstance(stretch, ProvenPart) else prover.parts(stretch))
            ]
        finally:
            prover.close()
        if found:
            columns = [
                pa.array(column, kind.type) for column, kind in zip(zip(*found, strict=True), _ARROW, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_ARROW)

    slim = runs.select(*_OF_STRETCH, *_TARGET, *_NUMBERS)
    spread = slim.repartition(min(_TASKS, len(wanted)), *_OF_STRETCH).sortWithinPartitions(*_OF_STRETCH)
    return [ProvenPart(*row) for row in spread.mapInArrow(prove, _PARTS).collect()]


def copied_stretches(
    batches: list[pa.RecordBatch], wanted: Mapping[StretchKey, WantedStretch], target_ids: Mapping[str, str]
) -> list[CopiedStretch | ProvenPart]:
    """The stretches whose runs a task has got, the most important first; what cannot be proven is a part with a doubt.

    Args:
        batches: Runs, as of `proven_parts`, in the order of their stretches.
        wanted: The stretches.
        target_ids: Today's id of each target topic.
    """
    if not batches:
        return []
    table = pa.Table.from_batches(batches)
    found: list[tuple[int, CopiedStretch | ProvenPart]] = []
    for a, b in pairwise(groups(table, _OF_STRETCH)):
        topic, partition, start = (table[name][a].as_py() for name in _OF_STRETCH)
        runs, stretch = table.slice(a, b - a), wanted[topic, partition, start]
        mapped = MappedOffsets.of(*(numbers(runs[name]) for name in _NUMBERS))
        to, to_id, to_partition = (runs[name][0].as_py() for name in _TARGET)
        why = ""
        if len(groups(runs, _TARGET)[1:]) > 1:
            why = "its copies lie in more than one target partition"
        elif target_ids.get(to) != to_id:
            why = f"the target topic {to} was created anew"
        if why or mapped is None:
            why = why or "its mappings overlap"
            found.append((stretch.order, ProvenPart(topic, partition, start, start, -1, -1, 0, 0, 0, 0, why, start)))
            continue
        source, target = TopicPartition(topic, partition), TopicPartition(to, to_partition)
        copied = CopiedStretch(source, stretch.source_id, start, stretch.end, target, to_id, mapped)
        found.append((stretch.order, copied))
    return [stretch for _, stretch in sorted(found, key=lambda each: each[0])]
