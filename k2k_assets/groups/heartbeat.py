"""Writes a mapper's heartbeats, as slots do; the sensor that requests Dagster runs relies on them."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Self

from k2k_assets.control.assignment_writing import AssignmentWriter
from k2k_assets.control.mapper_claims import MapperHeartbeat
from k2k_assets.coordination.liveness import heartbeat_interval_seconds
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.groups")


class MapperHeartbeats:
    """Writes heartbeats from a thread of its own, because a poll may take long.

    The last heartbeat stays in the topic: a mapper that has ended writes no more, and counts as dead soon after.

    Args:
        pipeline: The mapper's pipeline.
        run: Id of the mapper's Dagster run; None outside Dagster.
    """

    def __init__(self, pipeline: Pipeline, run: str | None = None) -> None:
        self._heartbeat = MapperHeartbeat.new(pipeline.name, pipeline.group, run)
        self._writer = AssignmentWriter(pipeline)
        self._interval = heartbeat_interval_seconds(pipeline)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="k2k-mapper-heartbeats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ended.set()
        self._thread.join(self._interval)

    def _beat(self) -> None:
        is_told = False
        while True:
            heartbeat = self._heartbeat.now()
            try:
                self._writer.write([(heartbeat.key_bytes(), heartbeat.value_bytes())])
                is_told = False
            except Exception as error:  # the thread must not end: a mapper without heartbeats is replaced
                if not is_told:
                    log.warning("no heartbeat could be written: %s", error)
                is_told = True
            if self._ended.wait(self._interval):
                return
