"""Writes the heartbeats of mappers, of Dagster runs, and of instances without slots at work; the sensors rely on them.

Slots write their own, fenced, in `replication/slot/start/slot_claims.py`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from k2k_assets.control.assignment_records import heartbeat_key, time_value
from k2k_assets.control.assignment_writing import AssignmentWriter
from k2k_assets.control.commit_log import now_ms
from k2k_assets.coordination.liveness import heartbeat_interval_seconds
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.coordination")

# In the place of the number of a slot: the instance itself.
_NO_SLOT = -1

Beat = Callable[[], tuple[bytes, bytes] | None]
"""Makes the next heartbeat: key and value of the record; None if there is none to write now."""


class Heartbeats:
    """Writes heartbeats to the assignment topic from a thread of its own, because the work itself may take long.

    The last heartbeat stays in the topic: a process that has ended writes no more, and counts as dead soon after.

    Args:
        pipeline: The pipeline.
        beat: Makes the next heartbeat.
        leaves_none: Whether a record is removed at the end, or when `beat` has another key, or none to write.
    """

    def __init__(self, pipeline: Pipeline, beat: Beat, *, leaves_none: bool = False) -> None:
        self._beat = beat
        self._leaves_none = leaves_none
        self._writer = AssignmentWriter(pipeline)
        self._interval = heartbeat_interval_seconds(pipeline)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="k2k-heartbeats", daemon=True)
        self._is_told = False
        self._left: set[bytes] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.end()
        self._thread.join(self._interval)

    def end(self) -> None:
        """Lets the heartbeats end soon; does not wait."""
        self._ended.set()

    def _run(self) -> None:
        while True:
            self._write(self._beat)
            if self._ended.wait(self._interval):
                break
        if self._leaves_none:
            self._write(lambda: None)

    def _write(self, beat: Beat) -> None:
        try:
            record = beat()
            now = {} if record is None else {record[0]: record[1]}
            over = self._left - now.keys() if self._leaves_none else set()
            self._left |= now.keys()
            self._writer.write([*now.items(), *((key, None) for key in over)])
            self._left -= over
            self._is_told = False
        except Exception as error:  # the thread must not end: a process without heartbeats is replaced
            if not self._is_told:
                log.warning("no heartbeat could be written: %s", error)
            self._is_told = True


def instance_heartbeats(pipeline: Pipeline, generation: Callable[[], int | None]) -> Heartbeats:
    """The heartbeats of an instance while none of its slots writes any: its Spark starts anew, or all is stopped.

    It is there for its partitions all the same, so sensors must not ask for another one.

    Args:
        pipeline: The pipeline.
        generation: Returns its newest generation; None while its slots write, or where others copy all.
    """

    def beat() -> tuple[bytes, bytes] | None:
        number = generation()
        return None if number is None else (heartbeat_key(pipeline.group, number, _NO_SLOT), time_value(now_ms()))

    return Heartbeats(pipeline, beat, leaves_none=True)
