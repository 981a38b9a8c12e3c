"""Spark for a run without an end: when the JVM below it is killed, the next job gets a new one."""

from __future__ import annotations

import logging
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pyspark import SparkContext
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from k2k_assets.errors import K2KError, words_of
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication import Extent, Outcome, Progress
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.replicate import replicate_with
from k2k_assets.replication.task import SlotResult, run_slots
from k2k_assets.replication.task_slots import free_cores
from k2k_assets.resources.spark import LOST, build_session, not_started, spark_conf

_log = logging.getLogger("k2k.spark")

_ATTEMPTS = 3
_DYING_SECONDS = 5.0


class LastingSpark:
    """Runs a pipeline's slots on its session.

    Args:
        pipeline: Whose settings the session has.

    Attributes:
        session: The one of now.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        say_less_of_broken_connections()
        self.session, self._cores = self._built()

    def replicate(
        self, extent: Extent, *, stop: threading.Event, observer: Callable[[Progress], None] | None = None
    ) -> Outcome:
        """As `replication.replicate`."""
        return replicate_with(self.run_slots, self._cores, self._pipeline, extent, stop=stop, observer=observer)

    def run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one task a slot and waits for all of them."""
        if has_lost_its_jvm(self.session):
            _log.warning("Spark's Java process is gone; a new one is started")
            forget(self.session)
            self.session, self._cores = self._built()
        return run_slots(self.session, plans)

    def stop(self) -> None:
        """Ends the session; a JVM that is killed meanwhile takes it along."""
        if not has_lost_its_jvm(self.session):
            try:
                self.session.stop()
                return
            except LOST as error:
                if not _jvm_ends():
                    raise
                _log.warning("Spark's Java process ended before it was told to: %s", words_of(error)[0])
        forget(self.session)

    def _built(self) -> tuple[SparkSession, int]:
        """A session, and the tasks that it runs at once; one whose JVM is killed at its start is made again.

        Raises:
            K2KError: Spark does not start.
        """
        for _ in range(_ATTEMPTS):
            try:
                session = build_session(self._pipeline)
                return session, free_cores(self._pipeline, session)
            except LOST as error:
                if self._pipeline.spark.remote or not _jvm_ends():
                    raise not_started(spark_conf(self._pipeline), error) from None
                _log.warning("Spark's Java process ended while it started: %s", words_of(error)[0])
                forget(SparkSession._instantiatedSession)
        raise K2KError(f"Spark's Java process ended {_ATTEMPTS} times while it started; what it said is above")


def say_less_of_broken_connections() -> None:
    """Keeps pyspark's server of accumulators from printing a traceback when the Java process is killed."""
    for kind in (AccumulatorTCPServer, AccumulatorUnixServer):
        kind.handle_error = _handle_error


def _handle_error(server: socketserver.BaseServer, request: Any, address: Any) -> None:
    """As socketserver's own, but of a connection that broke only at debug: that Java is gone is told elsewhere."""
    if isinstance(sys.exc_info()[1], EOFError | OSError | PySparkException):
        _log.debug("the connection of pyspark's accumulators broke", exc_info=True)
    else:
        socketserver.BaseServer.handle_error(server, request, address)


def _jvm() -> subprocess.Popen[bytes] | None:
    """The Java process that pyspark has started; it has no public name for it."""
    return getattr(SparkContext._gateway, "proc", None)


def _jvm_ends() -> bool:
    """Whether the Java process has ended or is about to: its connections break before it is gone."""
    process = _jvm()
    try:
        return process is None or process.wait(_DYING_SECONDS) is not None
    except subprocess.TimeoutExpired:
        return False


def has_lost_its_jvm(session: SparkSession) -> bool:
    """Whether the Java process that pyspark started for it has ended; never for Spark Connect."""
    if session is not SparkSession._instantiatedSession:
        return False
    process = _jvm()
    return process is not None and process.poll() is not None


def forget(session: SparkSession | None) -> None:
    """Makes pyspark start a new JVM for the next session: it never does by itself, and has no public call for it."""
    if session is not None:
        with suppress(Exception):  # each of its steps wants to talk to the JVM
            session.stop()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
