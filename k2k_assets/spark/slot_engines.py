"""Spark as the copy path sees it: something that runs slots, classic or Connect."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from pyspark import RDD, SparkContext
from pyspark.sql import SparkSession

from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.spark.java_process import QUICK_FLAGS, JavaProcess, is_local
from k2k_assets.spark.sessions import build_session, start_context
from k2k_assets.spark.slot_task import copy_partition, run_slots
from k2k_assets.spark.spark_settings import spark_conf
from k2k_assets.spark.task_slots import cores_with, free_cores

_log = logging.getLogger("k2k.spark")

# More workers than this are started when they are needed.
_MOST_WARM = 8


class SlotEngine(Protocol):
    """Runs slots.

    Attributes:
        cores: How many at once.
    """

    cores: int

    def run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one task a slot and waits for all of them."""
        ...

    def has_lost_its_jvm(self) -> bool:
        """Whether the Java process that pyspark has started for it is gone."""
        ...

    def stop(self) -> None:
        """Ends it; raises what Spark does when its Java process is gone."""
        ...


def build_engine(pipeline: Pipeline, java: JavaProcess | None = None, flags: Sequence[str] = QUICK_FLAGS) -> SlotEngine:
    """The engine of a pipeline.

    Args:
        pipeline: Whose settings it has.
        java: A Java process for it that was started before.
        flags: For the Java process that is started otherwise.

    Raises:
        K2KError: There is no Java that Spark runs on, or Spark runs fewer slots than the pipeline asks for.
        LOST: Spark did not start.
    """
    return ConnectSlots(pipeline) if pipeline.spark.remote else ClassicSlots(pipeline, java, flags)


class ConnectSlots:
    """Slots on a Spark Connect server; only DataFrames go there.

    Args:
        pipeline: Names the server.

    Attributes:
        cores: How many slots run at once.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._session = build_session(pipeline)
        self.cores = free_cores(pipeline, self._session)

    def run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one task a slot and waits for all of them."""
        return run_slots(self._session, plans)

    def has_lost_its_jvm(self) -> bool:
        """There is none here."""
        return False

    def stop(self) -> None:
        """Ends the session."""
        self._session.stop()


class ClassicSlots:
    """Slots on a Spark whose driver is this process. No query is planned for them, so nothing of SQL is loaded.

    Args:
        pipeline: Whose settings it has.
        java: A Java process for it that was started before.
        flags: For the Java process that is started otherwise.

    Attributes:
        cores: How many slots run at once.
        context: Spark.
    """

    def __init__(self, pipeline: Pipeline, java: JavaProcess | None = None, flags: Sequence[str] = QUICK_FLAGS) -> None:
        conf = spark_conf(pipeline)
        self.context = start_context(conf, java, flags)
        self.cores = cores_with(pipeline, self.context.getConf().get)
        if is_local(conf):
            wanted = pipeline.configuration.partition_parallelism or self.cores
            warm_up = threading.Thread(target=self._warm_up, args=(min(wanted, _MOST_WARM),), name="k2k-warm-up")
            warm_up.daemon = True
            warm_up.start()

    def run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        """Runs one task a slot and waits for all of them."""
        nothing: RDD[object] = self.context.parallelize([], len(plans))
        return nothing.mapPartitionsWithIndex(copy_partition(plans)).collect()

    def has_lost_its_jvm(self) -> bool:
        """Whether the Java process has ended."""
        process = getattr(SparkContext._gateway, "proc", None)
        return process is not None and process.poll() is not None

    def stop(self) -> None:
        """Ends the context. Its server of accumulators, which nobody uses, takes a second for it and ends by itself."""
        server = self.context._accumulatorServer
        self.context._accumulatorServer = None  # type: ignore[assignment]  # as pyspark does
        try:
            self.context.stop()
        finally:
            if server:
                threading.Thread(target=server.shutdown, daemon=True).start()

    def _warm_up(self, tasks: int) -> None:
        """Starts the Python workers, which the slots then use, while the first generation is drawn."""
        # Whatever is wrong with workers, the slots meet it too.
        with suppress(Exception):
            self.context.parallelize([], tasks).mapPartitions(_nothing).collect()


def _nothing(items: object) -> tuple[()]:
    return ()


def forget(session: SparkSession | None = None) -> None:
    """Makes pyspark start a new JVM for the next session: it never does by itself, and has no public call for it.

    Args:
        session: One to be stopped, as far as that goes.
    """
    for user in (session, SparkContext._active_spark_context):
        if user is not None:
            with suppress(Exception):  # each of its steps wants to talk to the JVM
                user.stop()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
