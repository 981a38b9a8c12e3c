"""The Spark side of a slot: a `mapInArrow` task that copies for as long as the slot lives.

The task makes its own clients, records of the copy path stay in its Python worker, and rows are returned only at the
end. So progress is read from the commit topic.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from k2k_assets.core.json_logs import JsonFormatter, is_json
from k2k_assets.core.stops.document import document_of, reason_of
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.task import SlotResult, copy_slot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_WATCH = "k2k-parent-watch"

# Of glibc's malloc.h: `M_ARENA_MAX`, and the number of arenas that is enough for a consumer and a producer;
# `M_MMAP_THRESHOLD`, and the highest that it takes; `M_TRIM_THRESHOLD`, and more than is read ahead.
_ARENA_MAX, _ARENAS = -8, 2
_MMAP_THRESHOLD, _LARGEST_IN_HEAP = -3, 32 * 1024 * 1024
_TRIM_THRESHOLD, _LEAST_TRIMMED = -1, 64 * 1024 * 1024

RESULT_DDL = "slot int, error string, message string, stopped string, superseded_by string"


def run_slots(spark: SparkSession, plans: Sequence[SlotPlan]) -> list[SlotResult]:
    """Runs one task for each slot, and waits for all of them.

    Args:
        spark: The session, classic or Connect; only DataFrames are used.
        plans: One plan for each slot.
    """
    # A range with as many partitions as rows, so that each task gets exactly one slot.
    rows = spark.range(0, len(plans), 1, len(plans)).mapInArrow(copy_task(plans), RESULT_DDL).collect()
    return [
        SlotResult(row.slot, row.error, row.message, _stopped(row.stopped), _owners(row.superseded_by)) for row in rows
    ]


def copy_task(plans: Sequence[SlotPlan]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Makes the function that Spark ships to its workers."""

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _prepare_worker()
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield _row(copy_slot(plans[index]))

    return copy


def copy_partition(plans: Sequence[SlotPlan]) -> Callable[[int, Iterable[object]], Iterator[SlotResult]]:
    """Makes the function for Spark without DataFrames; the index of the task is the index of the slot's plan."""

    def copy(index: int, _nothing: Iterable[object]) -> Iterator[SlotResult]:
        _prepare_worker()
        yield copy_slot(plans[index])

    return copy


def _prepare_worker() -> None:
    _log_to_stderr()
    end_with_parent()
    keep_memory_together()


def _row(result: SlotResult) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [
            pa.array([result.slot], pa.int32()),
            pa.array([result.error], pa.string()),
            pa.array([result.message], pa.string()),
            pa.array([_stopped_text(result.stopped)], pa.string()),
            pa.array([_owners_text(result.superseded_by)], pa.string()),
        ],
        names=["slot", "error", "message", "stopped", "superseded_by"],
    )


def _stopped_text(stopped: dict[TopicPartition, StopReason]) -> str:
    return json.dumps([[*tp, document_of(reason), render(reason, with_code=False)] for tp, reason in stopped.items()])


def _stopped(text: str) -> dict[TopicPartition, StopReason]:
    return {
        TopicPartition(topic, partition): reason_of(document, words)
        for topic, partition, document, words in json.loads(text)
    }


def _owners_text(owners: dict[TopicPartition, str]) -> str:
    return json.dumps([[*tp, owner] for tp, owner in owners.items()])


def _owners(text: str) -> dict[TopicPartition, str]:
    return {TopicPartition(topic, partition): owner for topic, partition, owner in json.loads(text)}


def _log_to_stderr() -> None:
    root = logging.getLogger("k2k")
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        as_text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
        handler.setFormatter(JsonFormatter() if is_json() else as_text)
        root.addHandler(handler)
        root.setLevel(logging.INFO)


def keep_memory_together() -> None:
    """Limits the arenas of glibc's memory allocator for the rest of this process, and what it gives back to the system.

    By default each thread of a client gets an arena of its own, up to eight for each core. Every run has new clients,
    whose threads do not use the free memory in the arenas of earlier threads: so a worker that runs many slots would
    grow to several times of what it needs. And what is read comes a megabyte or more at a time: by default such memory
    is given back when it is free, and the next megabyte costs a page fault for each of its pages. Other C libraries
    have neither.
    """
    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        for option, value in (
            (_ARENA_MAX, _ARENAS),
            (_MMAP_THRESHOLD, _LARGEST_IN_HEAP),
            (_TRIM_THRESHOLD, _LEAST_TRIMMED),
        ):
            libc.mallopt(option, value)


def end_with_parent() -> None:
    """Ends this worker within a second of losing its parent, because nobody could stop it any more.

    Its open transaction is aborted by the next holder of its transactional id, or by its time-out. Spark uses a worker
    for many tasks, so only the first call starts the watch. Our own daemon makes it in each worker that it forks: the
    first task may come so late that the parent is gone already.
    """
    if any(thread.name == _WATCH for thread in threading.enumerate()):
        return
    parent = os.getppid()
    lost = threading.Event()

    def watch() -> None:
        while os.getppid() == parent:
            lost.wait(0.5)
        os._exit(70)

    threading.Thread(target=watch, name=_WATCH, daemon=True).start()
