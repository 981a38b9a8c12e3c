"""A run of the sync job whose topics stop: their checks tell it while it runs, and the sensor asks for no other run.

Spark is left out: the slots are threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.definitions import build_definitions
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.names import TOPIC_CHECK
from k2k_assets.orchestration.spark_resource import PipelineSparkResource
from k2k_assets.overrides.apply import override
from k2k_assets.overrides.request import Request, Wanted
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.replicate import replicate_with
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all
from k2k_assets_tests.support.copies.copying import Running, in_threads
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks, reason, requests

pytestmark = pytest.mark.integration

GRACE_SECONDS = 8


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def copying(_: PipelineSparkResource, pipeline: Pipeline) -> Iterator[Any]:
        yield SimpleNamespace(replicate=partial(replicate_with, in_threads, 1, pipeline))

    monkeypatch.setattr(PipelineSparkResource, "copying", copying)


class SyncJob:
    """A pipeline under Dagster, one topic of which begins where its log holds nothing."""

    def __init__(self, clusters: KafkaSandbox, place: Path, bad: str, *others: str) -> None:
        self.clusters, self.bad = clusters, bad
        for topic in (bad, *others):
            create_topic(clusters.source_servers, topic)
            produce(clusters.source_servers, topic, [b"a"] * 4, 0)
        topics = [bad, *others]
        self.ticks = Ticks(
            place,
            clusters.source_servers,
            clusters.target_servers,
            topics,
            replication=[
                {"source": {"topic": topics, "start": {bad: {0: 99}}}},
                {"sink": {"topic": "source", "partition": "source"}},
            ],
            coordination={"assignment": {"graceWindow": f"{GRACE_SECONDS} seconds"}},
        )
        (home := place.parent / "dagster").mkdir()
        self.ticks.instance = dg.DagsterInstance.local_temp(str(home))
        self.ticks.tick()  # it discovers

    def run(self, meanwhile: Callable[[], None]) -> dg.ExecuteInProcessResult:
        """Runs the job here, and something beside it; then a newer instance takes over, by which the run ends."""
        failed: list[BaseException] = []

        def beside() -> None:
            try:
                meanwhile()
            except BaseException as error:
                failed.append(error)
            finally:
                newer = Running(self.ticks.pipeline, 1)
                if not over.wait(300):
                    failed.append(AssertionError("the older run has not ended"))
                newer.end()

        over, thread = threading.Event(), threading.Thread(target=beside)
        thread.start()
        job = build_definitions(self.ticks.folder).resolve_job_def(self.ticks.names.sync_job)
        try:
            return job.execute_in_process(
                instance=self.ticks.instance, tags=self.ticks.names.sync_tags, raise_on_error=False
            )
        finally:
            over.set()
            thread.join()
            if failed:
                raise failed[0]

    def goes_on(self) -> bool:
        """Whether the run has not ended."""
        return [run.is_finished for run in self.ticks.instance.get_runs()] == [False]

    def check(self, topic: str) -> bool | None:
        """What is shown of the check on a topic; None: nothing."""
        key = dg.AssetCheckKey(self.ticks.names.topic_key(topic), TOPIC_CHECK)
        storage = self.ticks.instance.event_log_storage
        latest = storage.get_latest_asset_check_execution_by_key([key]).get(key)
        evaluation = latest.evaluation if latest else None
        return None if evaluation is None else evaluation.passed

    def await_that(self, condition: Callable[[], object], what: str) -> None:
        wait_until(lambda: condition() or (self.ticks.instance.get_runs() and not self.goes_on()), 60, what)
        assert self.goes_on(), what

    def put_right(self) -> None:
        """As `k2k-tool set` does."""
        with both_clusters(self.ticks.pipeline) as (source, target):
            override(self.ticks.pipeline, source, target, Request((Wanted(self.bad, 0, "earliest"),), "a test"))

    def copied(self, topic: str) -> int:
        return len(read_all(self.clusters.target_servers, topic))


@pytest.mark.slow
def test_a_stop_without_a_position_fails_its_check_while_the_run_goes_on(
    clusters: KafkaSandbox, place: Path, prefix: str
) -> None:
    bad, good = f"{prefix}.bad", f"{prefix}.good"
    sync = SyncJob(clusters, place, bad, good)

    def meanwhile() -> None:
        sync.await_that(lambda: sync.check(bad) is False, "the check of the stopped topic to fail")
        produce(clusters.source_servers, good, [b"b"], 0)
        sync.await_that(lambda: sync.copied(good) == 5, "the other topic to be copied on")
        sync.await_that(lambda: sync.check(good), "the check of the other topic")
        assert sync.check(bad) is False
        sync.put_right()
        sync.await_that(lambda: sync.copied(bad) == 4, "what was put right to be copied")
        sync.await_that(lambda: sync.check(bad), "its check to pass")

    assert sync.run(meanwhile).success


def test_where_all_topics_are_stopped_the_run_stays_and_takes_up_what_is_put_right(
    clusters: KafkaSandbox, place: Path, prefix: str
) -> None:
    bad = f"{prefix}.bad"
    sync = SyncJob(clusters, place, bad)

    def meanwhile() -> None:
        sync.await_that(lambda: sync.check(bad) is False, "the check to fail")
        began = time.monotonic()
        while time.monotonic() < began + 2 * GRACE_SECONDS + 1:  # else silence would not show
            answer = sync.ticks.tick()
            assert requests(answer) == []
            assert reason(answer).endswith(" copies")
            assert sync.goes_on()
            time.sleep(0.3)  # without it, this loop would use one of two cores
        sync.put_right()
        sync.await_that(lambda: sync.copied(bad) == 4, "what was put right to be copied")
        sync.await_that(lambda: sync.check(bad), "its check to pass")

    assert sync.run(meanwhile).success
