"""A source topic that is deleted and created anew with the same end offsets, looked at while nothing copies."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.definitions import build_definitions
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.assets.shown import shown_topics
from k2k_assets.orchestration.assets.topics.sources import source_assets
from k2k_assets.orchestration.assets.topics.topic_report import topic_report
from k2k_assets.orchestration.assets.topics.topic_results import ShownTopicCopy, materialization
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.copying import Running, copy
from k2k_assets_tests.support.dagster.fixture import is_synced
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks

pytestmark = pytest.mark.integration


class Seen:
    """One topic under Dagster."""

    def __init__(self, clusters: KafkaSandbox, place: Path) -> None:
        self.source, self.topic = clusters.source_servers, create_topic(clusters.source_servers, unique("anew"), 2)
        self.write()
        self.ticks = Ticks(place, clusters.source_servers, clusters.target_servers, [self.topic])
        self.key = self.ticks.names.topic_key(self.topic)

    def write(self) -> None:
        for partition in (0, 1):
            produce(self.source, self.topic, [b"%d" % n for n in range(4)], partition)

    def create_anew(self) -> None:
        delete_topic(self.source, self.topic)
        create_topic(self.source, self.topic, 2)
        self.write()

    def is_synced(self) -> bool:
        return is_synced(self.ticks.instance, build_definitions(self.ticks.folder), self.key)

    def look(self) -> None:
        """A click on Observe."""
        ticks = self.ticks
        assets = source_assets(ticks.pipeline, ticks.names, list(shown_topics(ticks.pipeline, None)))
        job = dg.Definitions(assets=assets, jobs=[dg.define_asset_job("look", dg.AssetSelection.assets(*assets))])
        assert job.resolve_job_def("look").execute_in_process(instance=ticks.instance).success

    def tick(self) -> None:
        """A tick of the sensor, which reports what `k2k start` copies."""
        answer = self.ticks.tick()
        assert isinstance(answer, dg.SensorResult)
        for event in answer.asset_events:
            self.ticks.instance.report_runless_asset_event(event)

    def materialize(self, outcome: Outcome) -> ShownTopicCopy:
        """What a click on Materialize reports of a copy."""
        names, shown = self.ticks.names, materialization(outcome.topics[self.topic])
        what = names, self.ticks.pipeline.code_version, self.topic, shown.ends, shown.positions, shown.metadata
        for event in topic_report(*what, shown.topic_id):
            self.ticks.instance.report_runless_asset_event(event)
        return shown


@pytest.fixture
def seen(clusters: KafkaSandbox, place: Path) -> Seen:
    return Seen(clusters, place)


def test_where_k2k_start_has_copied_and_where_a_click_has(seen: Seen) -> None:
    running = Running(seen.ticks.pipeline, 1)
    running.await_copied(8)

    def is_reported() -> bool:
        seen.tick()
        return seen.ticks.instance.get_latest_materialization_event(seen.key) is not None and seen.is_synced()

    wait_until(is_reported, 120, "the sensor to report the copy")
    seen.look()
    assert seen.is_synced(), "what a click sees is what the sensor saw"
    running.end()
    outcome = copy(seen.ticks.pipeline)
    with both_clusters(seen.ticks.pipeline) as (source, _):
        described = source.describe([seen.topic])[seen.topic]
    assert seen.materialize(outcome).topic_id == described.topic_id
    seen.look()
    assert seen.is_synced(), "whoever copies, and whoever looks"

    seen.create_anew()
    seen.look()
    assert not seen.is_synced()
