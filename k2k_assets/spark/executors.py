"""Counts the slots that the executors of a cluster can run: they come after Spark's start, go, and come again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pyspark import SparkContext

from k2k_assets.core.errors import K2KError, StoppedWaiting
from k2k_assets.core.words import plural
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark.java_process import is_local_master

_log = logging.getLogger("k2k.spark")

# Spark's own setting for how long to wait for executors. Its default of 30 seconds is short for a cluster that first
# has to load an image.
_PATIENCE_SETTING, _PATIENCE = "spark.scheduler.maxRegisteredResourcesWaitingTime", "120s"
# No further executor is waited for when none has come for so long: the next look finds it, too.
_SETTLED_SECONDS = 3.0
_POLL_SECONDS = 0.1


def is_counted(setting: Callable[[str], str | None]) -> bool:
    """Whether the present executors tell how many slots run at once.

    Not in local mode, which has none; not over Spark Connect, which does not tell; and not where Spark asks for
    executors only when tasks wait for them.

    Args:
        setting: Returns a setting of Spark; None if it is not set.
    """
    master = setting("spark.master") or ""
    if not master or is_local_master(master):
        return False
    return (setting("spark.dynamicAllocation.enabled") or "").lower() != "true"


def present_cores(context: SparkContext) -> int:
    """Number of tasks that the present executors run at once, busy or not (Spark counts `spark.task.cpus`, too).

    Raises:
        Py4JError, PySparkException, OSError: The Java process is gone.
    """
    spark = context._jsc.sc()
    return int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))


def await_executors(
    context: SparkContext, pipeline: Pipeline, expected: int, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Waits until as many slots can run as are expected, or at least one can and no further executor comes.

    Args:
        context: Of Spark on a cluster.
        pipeline: Whose slots.
        expected: Number of slots by the settings, if these tell any.
        is_over: Whether nobody wants the slots any more.

    Raises:
        StoppedWaiting: Nobody wants the slots any more.
        K2KError: No executor has come.
    """
    patience = context._jsc.sc().conf().getTimeAsSeconds(_PATIENCE_SETTING, _PATIENCE)
    wanted = pipeline.slots
    wait_for = wanted or (expected if _is_told(context) else None)
    found = settled_cores(lambda: present_cores(context), wait_for, patience, is_over)
    if not found:
        raise K2KError(
            f"Spark ({context.master}) has no executor after {patience} seconds ({_PATIENCE_SETTING}), so no slot can "
            "copy. Nothing was taken over from other instances. Give the cluster free cores and memory: another "
            "application may hold all of them, unless its spark.cores.max says less"
        )
    if wanted is not None and wanted > found:
        _log.warning(
            "%s is %d, but the executors have cores for %s; when more executors come, they are used",
            pipeline.slots_key,
            wanted,
            plural(found, "slot"),
        )


def settled_cores(
    count: Callable[[], int],
    expected: int | None,
    patience: float,
    is_over: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Waits for executors; returns how many slots they can run.

    Args:
        count: Returns the number of slots that can run now.
        expected: With so many nothing is waited for any more; None: nobody knows.
        patience: Seconds to wait for the first one.
        is_over: Whether nobody wants the slots any more.
        clock: Seconds that only rise.
        sleep: Waits for some seconds.

    Raises:
        StoppedWaiting: Nobody wants the slots any more.
    """
    found, begun, is_told = 0, clock(), False
    since = begun
    while True:
        if is_over():
            raise StoppedWaiting("stopped while it waited for Spark's executors; nothing was copied")
        now = count()
        if expected is not None and now >= expected:
            return now
        if now != found:
            found, since = now, clock()
        if found and clock() - since >= _SETTLED_SECONDS:
            return found
        if not found and clock() - begun >= patience:
            return 0
        if not (found or is_told) and clock() - begun >= _SETTLED_SECONDS:
            is_told = True
            _log.warning(
                "Spark has no executor yet; one is waited for up to %g seconds (%s)", patience, _PATIENCE_SETTING
            )
        sleep(_POLL_SECONDS)


def _is_told(context: SparkContext) -> bool:
    """Whether the settings tell how many slots there will be."""
    names = ("spark.cores.max", "spark.executor.instances")
    return (context.master or "").startswith("local-cluster") or any(context.getConf().get(name) for name in names)
