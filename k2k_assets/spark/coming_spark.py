"""Starts Spark in the background, while the other steps before a copy are done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING

from k2k_assets.core.errors import StoppedWaiting
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark.java_process import QUICK_FLAGS, has_java, is_local, start_java
from k2k_assets.spark.spark_settings import spark_conf

if TYPE_CHECKING:
    from k2k_assets.replication.driver.events import Listener
    from k2k_assets.replication.driver.first_look import FirstLook
    from k2k_assets.replication.driver.outcome import Outcome
    from k2k_assets.replication.extent import Extent
    from k2k_assets.replication.plan import ReportAddress, SlotPlan
    from k2k_assets.replication.slot.task import SlotResult
    from k2k_assets.spark.lasting_spark import LastingSpark

_POLL_SECONDS = 0.1
# So long Spark on a cluster may take to end in an orderly way when it is given up while it starts.
_GIVEN_UP_SECONDS = 1.0


class ComingSpark:
    """Starts Spark at once: first its Java process, then the imports for it.

    Make it as soon as Spark is certainly needed. Then the caller has to call `stop`, or `await_start` if this process
    uses Spark further.

    Args:
        pipeline: Has the Spark settings.
        flags: Flags for the Java process.
    """

    def __init__(self, pipeline: Pipeline, flags: Sequence[str] = QUICK_FLAGS) -> None:
        self._pipeline, self._flags = pipeline, flags
        self._conf = spark_conf(pipeline)
        self._is_first = not has_java()
        self._java = start_java(self._conf, flags) if self._is_first else None
        self._spark: Future[LastingSpark] = Future()
        self._stop: threading.Event | None = None
        self._is_given_up = False
        threading.Thread(target=self._build, name="k2k-spark", daemon=True).start()

    def replicate(
        self,
        extent: Extent,
        *,
        topics: Collection[str] | None = None,
        look: FirstLook | None = None,
        stop: threading.Event,
        listener: Listener | None = None,
        run: str | None = None,
        reports: ReportAddress | None = None,
    ) -> Outcome:
        """Replicates on this Spark; arguments and results as in `replicate_with` (`replication/driver/replicate.py`).

        Raises:
            StoppedWaiting: It was stopped while it waited for Spark on a cluster; nothing was copied.
            K2KError: The replication failed, or Spark did not start.
        """
        from k2k_assets.replication.driver.replicate import replicate_with

        self._stop = stop
        return replicate_with(
            self._run_slots,
            self._cores(),
            self._pipeline,
            extent,
            topics=topics,
            look=look,
            stop=stop,
            listener=listener,
            run=run,
            await_runner=self._await_spark,
            reports=reports,
        )

    def stop(self) -> None:
        """Stops Spark; a start that is under way is given up, and Java ends with this process or before."""
        self._is_given_up = True
        if not is_local(self._conf):
            wait([self._spark], _GIVEN_UP_SECONDS)
        if self._spark.done():
            with suppress(Exception):  # Spark never started, and the caller has got that error before
                self._spark.result().stop()
            return
        # Threads that still talk to Java log errors that help nobody. py4j's child loggers take this level, too.
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        if self._java is not None:
            self._java.end()

    def await_start(self) -> None:
        """Waits until Spark has started or failed to start, so that this process can use it for other work."""
        wait([self._spark])

    def _cores(self) -> int | Callable[[], int]:
        from k2k_assets.spark.task_slots import cores_with

        if not is_local(self._conf):
            return lambda: self._spark.result().cores
        # A Spark that ran in this process before may have other settings.
        return cores_with(self._pipeline, self._conf.get) if self._is_first else self._spark.result().cores

    def _await_spark(self) -> None:
        """Returns when Spark can be used. On a cluster that may take minutes, so there it heeds `stop`.

        Raises:
            StoppedWaiting: It was stopped before.
            K2KError: Spark did not start.
        """
        while not is_local(self._conf) and not wait([self._spark], _POLL_SECONDS).done:
            if self._is_over() and not wait([self._spark], _GIVEN_UP_SECONDS).done:
                raise StoppedWaiting("stopped while Spark started; nothing was copied")
        self._spark.result()

    def _is_over(self) -> bool:
        return self._is_given_up or (self._stop is not None and self._stop.is_set())

    def _run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        return self._spark.result().run_slots(plans)

    def _build(self) -> None:
        try:
            from k2k_assets.spark.lasting_spark import LastingSpark

            self._spark.set_result(LastingSpark(self._pipeline, self._java, self._flags, self._is_over))
        except BaseException as error:
            self._spark.set_exception(error)
