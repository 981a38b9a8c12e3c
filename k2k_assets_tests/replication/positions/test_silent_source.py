"""A consumer that returns nothing although the source has records."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.replication.slot.read import silent_source
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.interface import Polled, Source
from k2k_assets_tests.replication.stages.test_fidelity import pipeline_for
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.copying import Running, assert_exact_mappings
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.sources import WrappedSource, wrap_sources
from k2k_assets_tests.support.proof.verifying import verify
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = pytest.mark.integration


@MODES
def test_a_consumer_that_stands_still_is_replaced(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("still"))
    NumberedWriter(source, [], 0).write(5, topic, 0, "committed")
    still: list[Source] = []

    class StandsStill(WrappedSource):
        def poll(self, limit: int, timeout: float) -> Polled:
            super().poll(limit, timeout)
            return Polled()

    def first_stands_still(source: Source) -> Source:
        # Only the first consumer is replaced quickly, because the next one may need long for its first fetch.
        monkeypatch.setattr(silent_source, "SILENCE_SECONDS", 15.0 if still else 0.5)
        if still:
            return source
        still.append(StandsStill(source))
        return still[0]

    wrap_sources(monkeypatch, first_stands_still)
    pipeline = pipeline_for(clusters, tmp_path, [topic], mode)
    running = Running(pipeline, 1)
    running.await_copied(5)
    running.end()
    assert f"the source has records that do not come: {topic}-0 stands at 0 of 6" in caplog.text
    verdict = verify(pipeline, source, target, [topic])
    assert (verdict.records, verdict.problems) == (5, [])
    assert_exact_mappings(pipeline, source, target, topic)
