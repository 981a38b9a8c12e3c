"""A collector that is away, or takes connections and never answers, keeps no program for long."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.events import Committed
from k2k_assets.telemetry.exporting import exporting
from k2k_assets.telemetry.last_exports import EACH_SECONDS, TOGETHER_SECONDS, LastExports
from k2k_assets_tests.support.copies.pipelines import make_pipeline


def test_all_together_have_some_seconds_and_each_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k2k_assets.telemetry.last_exports.TOGETHER_SECONDS", 0.3)
    monkeypatch.setattr("k2k_assets.telemetry.last_exports.EACH_SECONDS", 0.1)
    ends, done = threading.Event(), []
    last, began = LastExports(), time.monotonic()
    for _ in range(3):
        last.end(lambda: ends.wait(60))
    last.end(lambda: done.append("a quick one"))
    assert 0.5 <= time.monotonic() - began < 20
    assert done == ["a quick one"]
    ends.set()


@pytest.mark.slow
@pytest.mark.parametrize("answers", ["refused", "silent"])
def test_an_instance_ends_in_time(tmp_path: Path, answers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = 1 if answers == "refused" else silent.getsockname()[1]
        for name in ("METRICS", "TRACES", "LOGS"):
            monkeypatch.setenv(f"OTEL_{name}_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")  # seconds that each would try for
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["orders"])
        with exporting(pipeline, os.environ) as telemetry:
            telemetry.listener(Committed(TopicPartition("orders", 0), 7, 7, 3, 300, 1, 1, 0, 1000))
            logging.getLogger("k2k").error("a line")
            began = time.monotonic()
        assert time.monotonic() - began < TOGETHER_SECONDS + 2 * EACH_SECONDS + 20, (
            "not as long as each exporter would try"
        )
