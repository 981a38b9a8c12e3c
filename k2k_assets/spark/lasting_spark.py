"""Spark for a run without an end: when its JVM is killed, the next job gets a new one."""

from __future__ import annotations

import logging
import socketserver
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pyspark import SparkContext
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from k2k_assets.core.errors import K2KError, StoppedWaiting, message_lines
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.spark.error_cause import error_cause
from k2k_assets.spark.java_process import QUICK_FLAGS, JavaProcess
from k2k_assets.spark.sessions import LOST, not_started
from k2k_assets.spark.slot_engines import SlotEngine, build_engine, forget
from k2k_assets.spark.spark_settings import spark_conf

_log = logging.getLogger("k2k.spark")

_ATTEMPTS = 3
_DYING_SECONDS = 5.0


class LastingSpark:
    """Runs a pipeline's slots, on one Spark after the other if JVMs are killed.

    Args:
        pipeline: Has the Spark settings.
        java: A Java process that was started for it before.
        flags: Flags for Java processes that this class starts.
        is_over: Whether nobody wants the slots any more; asked while executors are waited for.

    Attributes:
        engine: The present engine.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        java: JavaProcess | None = None,
        flags: Sequence[str] = QUICK_FLAGS,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pipeline, self._flags, self._is_over = pipeline, flags, is_over
        say_less_of_broken_connections()
        self.engine = self._built(java)

    @property
    def cores(self) -> int:
        """Number of slots that run at once; on a cluster it changes."""
        return self.engine.cores

    def run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one task for each slot, and waits for all of them; none if nobody wants them any more before.

        Raises:
            K2KError: The job failed, or Spark did not start again.
        """
        if self.engine.has_lost_its_jvm():
            _log.warning("Spark has ended: its Java process is gone, or its cluster has stopped it; it is started anew")
            forget()
            try:
                self.engine = self._built(None)
            except StoppedWaiting as stopped:
                _log.info("%s", stopped)
                return []
        try:
            return self.engine.run_slots(plans)
        except K2KError:
            raise
        except Exception as error:
            raise K2KError(error_cause(error)) from error

    def stop(self) -> None:
        """Stops Spark; ignores errors if the JVM is killed meanwhile."""
        if not self.engine.has_lost_its_jvm():
            try:
                self.engine.stop()
                return
            except LOST as error:
                if not _jvm_ends():
                    raise
                _log.warning("Spark's Java process ended before it was told to: %s", message_lines(error)[0])
        forget()

    def _built(self, java: JavaProcess | None) -> SlotEngine:
        """Makes an engine; tries again if the JVM is killed while it starts.

        Raises:
            K2KError: Spark does not start, or nobody wants it any more.
        """
        for _ in range(_ATTEMPTS):
            try:
                return build_engine(self._pipeline, java, self._flags, self._is_over)
            except LOST as error:
                if self._pipeline.spark.remote or _was_ended(java) or not (_has_ended(java) or _jvm_ends()):
                    raise not_started(spark_conf(self._pipeline), error) from None
                _log.warning("Spark's Java process ended while it started: %s", message_lines(error)[0])
                forget(SparkSession._instantiatedSession)
                java = None
        raise K2KError(f"Spark's Java process ended {_ATTEMPTS} times while it started; what it said is above")


def say_less_of_broken_connections() -> None:
    """Keeps pyspark's server of accumulators from printing a traceback when the Java process is killed."""
    for kind in (AccumulatorTCPServer, AccumulatorUnixServer):
        kind.handle_error = _handle_error  # type: ignore[method-assign]


def _handle_error(self: socketserver.BaseServer, request: Any, client_address: Any) -> None:
    """Replaces socketserver's handler: logs broken connections at debug level; the lost JVM is reported elsewhere."""
    if isinstance(sys.exc_info()[1], EOFError | OSError | PySparkException):
        _log.debug("the connection of pyspark's accumulators broke", exc_info=True)
    else:
        socketserver.BaseServer.handle_error(self, request, client_address)


def _was_ended(java: JavaProcess | None) -> bool:
    return java is not None and java.was_ended


def _has_ended(java: JavaProcess | None) -> bool:
    return java is not None and java.process.poll() is not None


def _jvm_ends() -> bool:
    """Whether the Java process has ended, or ends within seconds: its connections break before it is gone."""
    process = getattr(SparkContext._gateway, "proc", None)
    try:
        return process is None or process.wait(_DYING_SECONDS) is not None
    except subprocess.TimeoutExpired:
        return False
