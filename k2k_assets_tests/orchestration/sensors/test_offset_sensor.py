"""Ticks of the offset sync sensor, without a daemon; `test_next_run_decision.py` tests the rules."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.coordination.liveness import Presence
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.discovery import Discovery
from k2k_assets.groups.heartbeat import mapper_heartbeats
from k2k_assets.orchestration.sensors import group_observation, offset_sensor
from k2k_assets.orchestration.sensors.group_observation import GroupObservation, observe_groups
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.dagster.sensor_ticks import Ticks, reason, requests
from k2k_assets_tests.support.memory.clock import FakeClock

FEATURES = {"offsetMapping": "enabled"}


class GroupTicks(Ticks):
    """The offset sync sensor."""

    @property
    def sensor_name(self) -> str:
        """The name of the sensor."""
        return self.names.offset_sensor


def _seen(pipeline: Pipeline, mappers: dict[str, Presence]) -> GroupObservation:
    return GroupObservation(Discovery(pipeline.name, 0, "s", "t", {}, ("billing",)), True, mappers)


@pytest.mark.integration
def test_it_asks_for_a_run_once_there_is_something_to_move(clusters: KafkaSandbox, place: Path) -> None:
    topic, group = unique("orders"), unique("billing")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
        produce(servers, topic, [b"%d" % n for n in range(10)], partition=0)
    groups = {"consumerGroups": f"{group}.*"}
    both = clusters.source_servers, clusters.target_servers
    ticks = GroupTicks(place, *both, [topic], features=FEATURES, groups=groups)
    assert reason(ticks.tick()) == "no selected consumer group of the source has a commit on a topic that is copied"
    commit(clusters.source_servers, group, {TopicPartition(topic, 0): 4})
    assert reason(ticks.tick()) == "nothing is copied yet, so no position can be translated"
    HandCopy(ticks.pipeline)
    (request,) = requests(ticks.tick())
    assert (request.run_key, request.tags) == ("groups-after-none", ticks.names.offset_sync_tags)
    assert request.asset_selection is None, "all groups, also those that appear later"

    with mapper_heartbeats(ticks.pipeline):
        wait_until(lambda: observe_groups(ticks.pipeline).mappers, 120, "the first heartbeat")
        told = reason(ticks.tick())
    assert told.startswith("the groups are moved by k2k-offset-mapping on ")


def test_a_mapper_that_falls_silent_is_dead_and_its_run_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, answers = FakeClock(), [True]
    mappers: dict[str, Presence] = {}

    def observe(pipeline: Pipeline) -> GroupObservation:
        if not answers[0]:
            raise ClusterUnreachable("the target does not answer")
        return _seen(pipeline, mappers)

    monkeypatch.setattr(offset_sensor, "observe_groups", observe)
    assignment = {"topic": "claims", "graceWindow": "15 seconds"}
    ticks = GroupTicks(place, "s:9092", "t:9092", "a", features=FEATURES, coordination={"assignment": assignment})
    ticks.clock = clock
    run = ticks.run(ticks.names.offset_sync_job, ticks.names.offset_sync_tags)
    mappers["m"] = Presence(sign=7, who="it", run=run.run_id)
    for clock.now, answers[0] in ((1000.0, True), (1010.0, False), (1040.0, True), (1050.0, True)):
        assert requests(ticks.tick()) == []
    clock.now = 1055.0
    (request,) = requests(ticks.tick())
    assert request.run_key == f"groups-after-{run.run_id}"
    ended = ticks.instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.FAILURE


def test_a_run_that_was_terminated_is_not_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_sensor, "observe_groups", lambda pipeline: _seen(pipeline, {}))
    ticks = GroupTicks(place, "s:9092", "t:9092", "a", features=FEATURES)
    run = ticks.run(ticks.names.offset_sync_job, ticks.names.offset_sync_tags)
    ticks.instance.report_run_canceled(run)
    answer = ticks.tick()
    assert requests(answer) == []
    assert f"run {run.run_id} was terminated by hand: no group is moved until" in reason(answer)
    ticks.switched_on = time.time() + 1
    assert len(requests(ticks.tick())) == 1


def test_an_unreachable_cluster_is_a_reason_to_skip(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_observation, "CALL_SECONDS", 1.0)
    ticks = GroupTicks(place, "127.0.0.1:1", "127.0.0.1:1", "any", features=FEATURES)
    assert "source cluster at 127.0.0.1:1 does not answer" in reason(ticks.tick())
