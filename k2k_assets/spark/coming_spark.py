"""Spark that is still starting while everything else is done that a copy begins with."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
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
    from k2k_assets.replication.plan import SlotPlan
    from k2k_assets.replication.slot.task import SlotResult
    from k2k_assets.spark.lasting_spark import LastingSpark


class ComingSpark:
    """Starts Spark at once, its Java process before anything is imported for it.

    To be made when it is known that Spark is wanted. In any case it is then to be stopped, or waited for where this
    process has more to do with Spark.

    Args:
        pipeline: Whose settings Spark has.
        flags: For its Java process.
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
    ) -> Outcome:
        """As `driver.replicate.replicate_with`.

        Raises:
            K2KError: As there, or Spark does not start.
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
        )

    def stop(self) -> None:
        """Ends Spark; one that is still starting is not waited for: its Java ends, at the latest with this process."""
        if self._spark.done():
            with suppress(Exception):  # it never started, and whoever wanted it was told
                self._spark.result().stop()
        elif self._java is not None:
            # Whoever talks to it has nobody to tell that it is gone. A level holds for py4j's loggers below, too.
            logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
            self._java.end()

    def await_start(self) -> None:
        """Returns when Spark has started, or has failed to, so that this process can use it for something else."""
        wait([self._spark])

    def _cores(self) -> int:
        from k2k_assets.spark.task_slots import cores_with

        # Spark that was there before may be somebody else's, with other settings.
        is_known = self._is_first and is_local(self._conf)
        return cores_with(self._pipeline, self._conf.get) if is_known else self._spark.result().cores

    def _run_slots(self, plans: Sequence[SlotPlan]) -> list[SlotResult]:
        return self._spark.result().run_slots(plans)

    def _build(self) -> None:
        try:
            from k2k_assets.spark.lasting_spark import LastingSpark

            self._spark.set_result(LastingSpark(self._pipeline, self._java, self._flags))
        except BaseException as error:
            self._spark.set_exception(error)
