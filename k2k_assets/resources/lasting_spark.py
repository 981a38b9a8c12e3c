"""Spark for a run without an end: when the JVM below it is killed, the next job gets a new one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from pyspark import SparkContext
from pyspark.sql import SparkSession

from k2k_assets.pipeline import Pipeline
from k2k_assets.replication import Extent, Outcome, Progress
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.replicate import replicate_with
from k2k_assets.replication.task import SlotResult, run_slots
from k2k_assets.replication.task_slots import free_cores
from k2k_assets.resources.spark import build_session

_log = logging.getLogger("k2k.spark")


class LastingSpark:
    """Runs a pipeline's slots on its session.

    Args:
        pipeline: Whose settings the session has.

    Attributes:
        session: The one of now.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.session = build_session(pipeline)

    def replicate(
        self, extent: Extent, *, stop: threading.Event, observer: Callable[[Progress], None] | None = None
    ) -> Outcome:
        """As `replication.replicate`."""
        cores = free_cores(self._pipeline, self.session)
        return replicate_with(self.run_slots, cores, self._pipeline, extent, stop=stop, observer=observer)

    def run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one task a slot and waits for all of them."""
        if has_lost_its_jvm(self.session):
            _log.warning("Spark's Java process is gone; a new one is started")
            forget(self.session)
            self.session = build_session(self._pipeline)
        return run_slots(self.session, plans)

    def stop(self) -> None:
        """Ends the session."""
        if has_lost_its_jvm(self.session):
            forget(self.session)
        else:
            self.session.stop()


def has_lost_its_jvm(session: SparkSession) -> bool:
    """Whether the Java process that pyspark started for it has ended; never for Spark Connect."""
    if session is not SparkSession._instantiatedSession:
        return False
    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def forget(session: SparkSession) -> None:
    """Makes pyspark start a new JVM for the next session: it never does by itself, and has no public call for it."""
    with suppress(Exception):  # each of its steps wants to talk to the JVM
        session.stop()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
