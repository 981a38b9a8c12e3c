"""Engines that run slots on Spark, classic or Connect."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from pyspark import RDD, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from k2k_assets.core.errors import K2KError
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.spark.executors import await_executors, is_counted, present_cores
from k2k_assets.spark.java_process import QUICK_FLAGS, JavaProcess, is_local
from k2k_assets.spark.sessions import LOST, build_session, start_context
from k2k_assets.spark.slot_task import copy_partition, run_slots
from k2k_assets.spark.spark_settings import spark_conf
from k2k_assets.spark.task_slots import cores_with, free_cores

_log = logging.getLogger("k2k.spark")

# At most so many workers are started in advance.
_MOST_WARM = 8
# Longest wait for Java to count the executors' cores; else the number of before counts.
_COUNT_SECONDS = 2.0
# What a Connect client says of a session that its server does not know any more.
_SESSION_ENDED = ("INVALID_HANDLE.SESSION", "server side session identifier", "NO_ACTIVE_SESSION")


class SlotEngine(Protocol):
    """Runs slots."""

    @property
    def cores(self) -> int:
        """Number of slots that run at once."""
        ...

    def run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one task a slot and waits for all of them."""
        ...

    def has_lost_its_jvm(self) -> bool:
        """Whether its Java process is gone, or Spark has stopped in it."""
        ...

    def stop(self) -> None:
        """Stops Spark; raises Spark's errors if its Java process is gone."""
        ...


def build_engine(
    pipeline: Pipeline,
    java: JavaProcess | None = None,
    flags: Sequence[str] = QUICK_FLAGS,
    is_over: Callable[[], bool] = lambda: False,
) -> SlotEngine:
    """Makes the engine of a pipeline.

    Args:
        pipeline: Has the Spark settings.
        java: A Java process that was started for it before.
        flags: Flags for the Java process that is started otherwise.
        is_over: Whether nobody wants it any more; asked while executors are waited for.

    Raises:
        K2KError: There is no Java that Spark runs on, or Spark runs fewer slots than the pipeline asks for.
        StoppedWaiting: Nobody wants it any more.
        LOST: Spark did not start.
    """
    return ConnectSlots(pipeline) if pipeline.spark.remote else ClassicSlots(pipeline, java, flags, is_over)


class ConnectSlots:
    """Runs slots on a Spark Connect server, which takes DataFrames only.

    Args:
        pipeline: Names the server.

    Attributes:
        cores: Number of slots that run at once.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._session = build_session(pipeline)
        self.cores = free_cores(pipeline, self._session)

    def run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one task a slot and waits for all of them; in a new session, if the server has ended the one before."""
        self._renew_if_ended()
        return run_slots(self._session, plans)

    def _renew_if_ended(self) -> None:
        """A server ends sessions that are idle for an hour, as that of a stand-by, and knows none after a restart."""
        try:
            self._session.range(0).collect()
        except PySparkException as error:
            if not any(words in str(error) for words in _SESSION_ENDED):
                raise
            _log.warning("the Spark Connect server has ended the session; there is a new one")
            self._session.stop()
            self._session = build_session(self._pipeline)

    def has_lost_its_jvm(self) -> bool:
        """Never: the JVM is on the server."""
        return False

    def stop(self) -> None:
        """Stops the session."""
        self._session.stop()


class ClassicSlots:
    """Runs slots on a Spark whose driver is this process, as an RDD, so that nothing of Spark SQL is loaded.

    Args:
        pipeline: Has the Spark settings.
        java: A Java process that was started for it before.
        flags: Flags for the Java process that is started otherwise.
        is_over: Whether nobody wants it any more; asked while executors are waited for.

    Attributes:
        context: The Spark context.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        java: JavaProcess | None = None,
        flags: Sequence[str] = QUICK_FLAGS,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        conf = spark_conf(pipeline)
        self.context = start_context(conf, java, flags)
        setting = self.context.getConf().get
        self._cores = cores_with(pipeline, setting)
        self._is_counted = is_counted(setting)
        self._counting: threading.Thread | None = None
        if self._is_counted:
            self._await_executors(pipeline, is_over)
        if is_local(conf):
            wanted = pipeline.slots or self._cores
            warm_up = threading.Thread(target=self._warm_up, args=(min(wanted, _MOST_WARM),), name="k2k-warm-up")
            warm_up.daemon = True
            warm_up.start()

    def run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one task a slot and waits for all of them."""
        nothing: RDD[object] = self.context.parallelize([], len(plans))
        return nothing.mapPartitionsWithIndex(copy_partition(plans)).collect()

    @property
    def cores(self) -> int:
        """Number of slots that run at once; on a cluster that of the executors which it has now."""
        if self._is_counted:
            # Not in this thread: of a Java process that is frozen no answer would come, and the driver has more to do.
            if self._counting is None or not self._counting.is_alive():
                self._counting = threading.Thread(target=self._count, name="k2k-cores", daemon=True)
                self._counting.start()
            self._counting.join(_COUNT_SECONDS)
        return self._cores

    def has_lost_its_jvm(self) -> bool:
        """Whether the Java process has ended, or its cluster has ended Spark in it."""
        process = getattr(SparkContext._gateway, "proc", None)
        if process is not None and process.poll() is not None:
            return True
        try:
            return self.context._jsc is None or bool(self.context._jsc.sc().isStopped())
        except LOST:
            return False  # it is just dying

    def stop(self) -> None:
        """Stops the context, but not its unused accumulator server, which takes a second to stop and ends by itself."""
        server = self.context._accumulatorServer
        self.context._accumulatorServer = None  # type: ignore[assignment]  # as pyspark does
        try:
            self.context.stop()
        finally:
            if server:
                threading.Thread(target=server.shutdown, daemon=True).start()

    def _count(self) -> None:
        with suppress(*LOST, AttributeError):  # a Spark that is gone is replaced with the next job
            self._cores = max(1, present_cores(self.context))

    def _await_executors(self, pipeline: Pipeline, is_over: Callable[[], bool]) -> None:
        """Waits for the first executors, before anything is taken over from an instance that has some.

        Raises:
            K2KError: None has come, or nobody wants them any more.
        """
        try:
            await_executors(self.context, pipeline, cores_with(pipeline, self.context.getConf().get), is_over)
        except K2KError:
            self.stop()
            raise

    def _warm_up(self, tasks: int) -> None:
        """Starts the Python workers for the slots while the driver draws the first generation."""
        # Errors are ignored: the slots will meet them too.
        with suppress(Exception):
            self.context.parallelize([], tasks).mapPartitions(_nothing).collect()


def _nothing(items: object) -> tuple[()]:
    return ()


def forget(session: SparkSession | None = None) -> None:
    """Makes pyspark start a new JVM for the next session, which it never does by itself, and has no public call for.

    Args:
        session: A session to stop, as far as that works.
    """
    for user in (session, SparkContext._active_spark_context):
        if user is not None:
            with suppress(Exception):  # each step of the stop talks to the JVM
                user.stop()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
