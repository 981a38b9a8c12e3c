"""Starts Spark in the background, while the other steps before a copy are done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING

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
            K2KError: The replication failed, or Spark did not start.
        """
        from k2k_assets.replication.driver.replicate import replicate_with

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
            await_runner=self._spark.result,
            reports=reports,
        )

    def stop(self) -> None:
        """Stops Spark. It does not wait for a start that is under way; then Java ends with this process or before."""
        if self._spark.done():
            with suppress(Exception):  # Spark never started, and the caller has got that error before
                self._spark.result().stop()
        elif self._java is not None:
            # Threads that still talk to Java log errors that help nobody. py4j's child loggers take this level, too.
            logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
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

    def _run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        return self._spark.result().run_slots(plans)

    def _build(self) -> None:
        try:
            from k2k_assets.spark.lasting_spark import LastingSpark

            self._spark.set_result(LastingSpark(self._pipeline, self._java, self._flags))
        except BaseException as error:
            self._spark.set_exception(error)
