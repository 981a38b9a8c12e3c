"""The process that benchmarks measure: it copies like `k2k start`, one job after another on one Java process."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from benchmarks.driver_process import DriverProcess
from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import jvms

pytestmark = [pytest.mark.integration, pytest.mark.spark]

SECONDS = 300.0
RECORDS = [b"%d" % i for i in range(10)]


def written(clusters: KafkaSandbox) -> str:
    topic = create_topic(clusters.source_servers, unique("measured"))
    produce(clusters.source_servers, topic, RECORDS)
    return topic


@pytest.mark.slow
def test_jobs_follow_each_other_on_one_java_process(clusters: KafkaSandbox, tmp_path: Path) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    with DriverProcess(tmp_path / "driver.log") as driver:
        # Refused at once, while Spark still starts; the next job must wait for Spark.
        driver.start(write_pipeline(tmp_path, source, target, [unique("missing")]))
        with pytest.raises(RuntimeError, match="the run failed: Refused"):
            driver.result(SECONDS)
        (java,) = jvms(psutil.Process(driver.pid))

        driver.start(write_pipeline(tmp_path, source, target, [written(clusters)]))
        assert driver.result(SECONDS)["records"] == len(RECORDS)

        topic = written(clusters)
        driver.start(write_pipeline(tmp_path, source, target, [topic]), continuous=True)
        wait_until(lambda: len(read_all(target, topic)) == len(RECORDS), SECONDS, "the records to be copied")
        driver.stop()
        assert driver.result(SECONDS)["records"] == len(RECORDS)
        assert jvms(psutil.Process(driver.pid)) == [java]
    assert psutil.wait_procs([java], 60)[1] == []
