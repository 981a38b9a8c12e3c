"""Which runs the sensor asks for, by ticks on real clusters without a daemon."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent

from k2k_assets import discovery
from k2k_assets.core.deadline import wait_until
from k2k_assets.definitions import build_definitions
from k2k_assets.orchestration.sensors import observation
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import Running
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks, reason, requests
from k2k_assets_tests.support.memory.clock import FakeClock


@pytest.mark.integration
def test_it_asks_for_one_run_that_copies_and_discovers(clusters: KafkaSandbox, place: Path) -> None:
    prefix = unique("s")
    ticks = Ticks(place, clusters.source_servers, clusters.target_servers, f"{prefix}[.].*")
    nothing = ticks.tick()
    assert (requests(nothing), reason(nothing)) == ([], "no topic of the source is selected")
    topic = create_topic(clusters.source_servers, f"{prefix}.one")
    (request,) = requests(ticks.tick())
    assert (request.job_name, request.tags) == (ticks.names.sync_job, ticks.names.sync_tags)
    found = discovery.load(ticks.pipeline.name)
    assert found is not None
    assert set(found.topics) == {topic}
    ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    waiting = ticks.tick()
    assert requests(waiting) == []
    assert "copies" in reason(waiting)


@pytest.mark.integration
def test_mappings_are_brought_up_to_date_beside_the_copy(clusters: KafkaSandbox, place: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("s"))
    create_topic(clusters.target_servers, topic)
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    ticks = Ticks(place, clusters.source_servers, clusters.target_servers, topic, features=features)
    HandCopy(ticks.pipeline).commit(topic, 0)
    ticks.run(ticks.names.sync_job, ticks.names.sync_tags)
    (request,) = requests(ticks.tick())
    assert (request.job_name, request.tags) == (ticks.names.mappings_job, ticks.names.mappings_tags)
    ticks.run(ticks.names.mappings_job, ticks.names.mappings_tags)
    assert requests(ticks.tick()) == []


@pytest.mark.integration
def test_mappings_are_brought_up_to_date_each_interval_of_the_file(clusters: KafkaSandbox, place: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("s"))
    create_topic(clusters.target_servers, topic)
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    ticks = Ticks(
        place,
        clusters.source_servers,
        clusters.target_servers,
        topic,
        features=features,
        index={"interval": "1 minute"},
    )
    ticks.clock = clock = FakeClock(time.time())
    HandCopy(ticks.pipeline).commit(topic, 0)
    job = ticks.names.mappings_job
    run = ticks.run(job, ticks.names.mappings_tags)
    ticks.instance.report_dagster_event(DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, job), run.run_id)
    for seconds, asked in ((50, False), (60, True)):
        clock.advance(seconds)
        assert (job in {each.job_name for each in requests(ticks.tick())}) is asked


@pytest.mark.slow
@pytest.mark.integration
def test_it_takes_nothing_from_a_continuous_instance(clusters: KafkaSandbox, place: Path) -> None:
    """The instance has not looked for new topics yet, so one lags."""
    name = unique("live")
    one, two = f"{name}.one", f"{name}.two"
    create_topic(clusters.source_servers, one)
    assignment = {"topic": f"{name}-claims", "graceWindow": "8 seconds"}
    ticks = Ticks(
        place,
        clusters.source_servers,
        clusters.target_servers,
        f"{name}[.].*",
        coordination={"commit": {"topic": f"{name}-commits"}, "assignment": assignment},
        sync={"metadataInterval": "10 minutes"},
    )

    reported: list[dg.AssetMaterialization] = []

    def answer() -> tuple[int, str]:
        told = ticks.tick()
        assert isinstance(told, dg.SensorResult)
        reported.extend(event for event in told.asset_events if isinstance(event, dg.AssetMaterialization))
        return len(requests(told)), reason(told)

    instance = Running(ticks.pipeline, 1)
    produce(clusters.source_servers, one, [b"1"])
    instance.await_copied(1)
    create_topic(clusters.source_servers, two)
    words = f"copied without end by pipeline {ticks.pipeline.name} on "
    began = time.monotonic()
    while time.monotonic() < began + 10:  # longer than the heartbeat timeout, so its heartbeats are seen
        asked, why = answer()
        assert asked == 0
        assert words in why
        time.sleep(0.2)  # without it, this loop would use one of two cores
    of_one = [event for event in reported if event.asset_key == ticks.names.topic_key(one)]
    assert of_one[0].metadata["k2k/lag"].value == 0, "it is told as a run of our own is"
    assert words.removeprefix("copied without end by ") in str(of_one[0].metadata["k2k/copied_by"].value)
    assert len(of_one) == 1, "nothing has moved since"
    instance.end()
    wait_until(lambda: answer()[0] == 1, 120, "the sensor to ask for a run")


def test_an_unreachable_cluster_is_a_reason_to_skip_in_bounded_time(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "CALL_SECONDS", 1.0)
    ticks = Ticks(place, "127.0.0.1:1", "127.0.0.1:1", "any")
    began = time.monotonic()
    answer = ticks.tick()
    assert requests(answer) == []
    assert "source cluster at 127.0.0.1:1 does not answer" in reason(answer)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(("value", "running"), [("running", True), ("", False), ("stopped", False)])
def test_it_runs_by_itself_only_where_that_is_wanted(
    place: Path, monkeypatch: pytest.MonkeyPatch, value: str, running: bool
) -> None:
    monkeypatch.setenv("K2K_SENSORS", value)
    place.mkdir()
    write_pipeline(place, "127.0.0.1:1", "127.0.0.1:1", "any")
    (sensor,) = build_definitions(place).get_repository_def().sensor_defs
    assert (sensor.default_status is dg.DefaultSensorStatus.RUNNING) == running
