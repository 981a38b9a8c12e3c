"""Paused topics on real clusters: left out within seconds, also after restarts and kills, and resumed exactly."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.status.copy_reader import CopyReader
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    commit_records,
    copy,
    in_processes,
)
from k2k_assets_tests.support.copies.pipelines import MODES, write_pipeline
from k2k_assets_tests.support.copies.tool import run_tool

# All records differ.
_NUMBERS = count()

pytestmark = pytest.mark.integration


class Fixture:
    """A pipeline of two topics, and the tool on it."""

    def __init__(self, clusters: KafkaSandbox, directory: Path, mode: str, capsys: Any) -> None:
        self.source, self.target = clusters.source_servers, clusters.target_servers
        self.held, self.other = (create_topic(self.source, unique(name), 2) for name in ("held", "other"))
        features = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"}
        topics = [self.held, self.other]
        coordination = {"assignment": {"topic": unique("claims"), "graceWindow": "3 seconds"}}
        self.path = write_pipeline(
            directory, self.source, self.target, topics, features=features, coordination=coordination
        )
        self.pipeline: Pipeline = load_pipeline([self.path])
        self._capsys = capsys

    def tool(self, command: str, *arguments: str) -> tuple[int, str]:
        return run_tool(self._capsys, self.path, command, *arguments)

    def write(self, topic: str, records: int = 20) -> None:
        for partition in range(2):
            produce(self.source, topic, [b"%d" % next(_NUMBERS) for _ in range(records)], partition)

    def newest(self, topic: str) -> dict[int, CommitRecord]:
        return {r.source.partition: r for r in commit_records(self.pipeline, self.target) if r.source.topic == topic}

    def position(self, topic: str) -> int:
        return sum(record.position for record in self.newest(topic).values())

    def copied(self, topic: str) -> int:
        """How many records are on the target; each counts once, because at least once some may be there twice."""
        return len({(record.partition, record.value) for record in read_all(self.target, topic)})

    def begun(self) -> Running:
        """A copy of both topics that goes on, after its first records."""
        self.write(self.held)
        self.write(self.other)
        running = Running(self.pipeline, 2)
        running.await_copied(80)
        return running

    def await_paused(self, running: Running) -> None:
        """Until the slots have let go of the topic: an exchange of claims is not needed for that."""
        wait_until(lambda: running.progress and self.held in running.progress.paused, 120, "the driver to see it")
        released = lambda: {r.kind for r in self.newest(self.held).values()} == {"release"}  # noqa: E731
        wait_until(released, 120, "the slots to leave the topic")

    def assert_all_copied(self) -> None:
        for topic in (self.held, self.other):
            if self.pipeline.features.exactly_once:
                assert_same_content(self.source, topic, self.target)
                assert_exact_mappings(self.pipeline, self.source, self.target, topic)
            else:  # a session that began anew, as on a busy machine, may have copied some twice
                _assert_nothing_lost(self, topic)


@pytest.fixture
def make(clusters: KafkaSandbox, tmp_path: Path, capsys: Any) -> Callable[[str], Fixture]:
    return lambda mode: Fixture(clusters, tmp_path, mode, capsys)


@MODES
def test_a_running_copy_leaves_a_paused_topic_out_and_goes_on_with_it(
    make: Callable[[str], Fixture], mode: str
) -> None:
    fixture = make(mode)
    running = fixture.begun()
    assert fixture.tool("pause", fixture.held, "--reason", "month end") == (0, f"{fixture.held}: paused\n")
    fixture.await_paused(running)

    fixture.write(fixture.held)
    fixture.write(fixture.other)
    wait_until(lambda: fixture.copied(fixture.other) == 80, 120, "the other topic to be copied on")
    assert fixture.copied(fixture.held) == 40

    _, said = fixture.tool("describe", "--json")
    rows = {row["topic"]: row for row in json.loads(said)["committed"]}
    assert (rows[fixture.held]["paused"]["reason"], "paused" in rows[fixture.other]) == ("month end", False)
    with both_clusters(fixture.pipeline) as (source, target), CopyReader(fixture.pipeline, source, target) as reader:
        states = {topic.topic: topic for topic in reader.read().topics}
    assert states[fixture.held].state == "paused"
    assert states[fixture.held].lag.offsets == 40
    assert states[fixture.other].state in ("active", "behind")

    assert fixture.tool("resume", fixture.held) == (0, f"{fixture.held}: resumed\n")
    wait_until(lambda: fixture.copied(fixture.held) == 80, 120, "the topic to be copied on")
    running.end()
    fixture.assert_all_copied()
    assert running.outcome
    assert running.outcome.stopped == {}


@MODES
def test_a_pause_outlives_restarts_and_a_run_with_an_end_does_not_wait_for_it(
    make: Callable[[str], Fixture], mode: str
) -> None:
    fixture = make(mode)
    assert fixture.tool("pause", fixture.held)[0] == 0, "before anything was copied"
    assert fixture.tool("pause", fixture.held) == (0, f"{fixture.held}: was paused before\n")
    fixture.write(fixture.held)
    fixture.write(fixture.other)
    for _ in range(2):
        outcome = copy(fixture.pipeline)
        assert outcome.stopped == {}
        held = outcome.topics[fixture.held]
        assert (held.records, held.paused is not None, outcome.topics[fixture.other].paused) == (0, True, None)
    assert (fixture.copied(fixture.other), fixture.newest(fixture.held)) == (40, {})
    assert fixture.tool("resume", fixture.held)[0] == 0
    assert copy(fixture.pipeline).topics[fixture.held].records == 40
    fixture.assert_all_copied()


@MODES
def test_an_instance_whose_topics_are_all_paused_stays_and_holds_its_claims(
    make: Callable[[str], Fixture], mode: str
) -> None:
    fixture = make(mode)
    running = fixture.begun()
    assert fixture.tool("pause", fixture.held, fixture.other)[0] == 0
    fixture.await_paused(running)
    fixture.write(fixture.held)
    # Longer than the heartbeat timeout: the override is refused only while its holder is seen alive.
    wait_until(lambda: _is_refused(fixture), 120, "heartbeats")
    assert fixture.copied(fixture.held) == 40
    assert fixture.tool("resume", fixture.held, fixture.other)[0] == 0
    wait_until(lambda: fixture.copied(fixture.held) == 80, 120, "the topic to be copied on")
    running.end()
    fixture.assert_all_copied()


def _is_refused(fixture: Fixture) -> bool:
    code, said = fixture.tool("set", "-o", f"{fixture.held}:all:current")
    return code == 3 and "has not released" in said


@MODES
def test_a_newer_instance_takes_a_paused_topic_over_and_leaves_it_out(
    make: Callable[[str], Fixture], mode: str
) -> None:
    fixture = make(mode)
    first = fixture.begun()
    assert fixture.tool("pause", fixture.held)[0] == 0
    fixture.await_paused(first)
    older = max(_state(fixture).instances)
    second = Running(fixture.pipeline, 2)
    newer = wait_until(lambda: _holder_above(fixture, older), 120, "the newer one to hold all partitions")
    fixture.write(fixture.held)
    fixture.write(fixture.other)
    wait_until(lambda: fixture.copied(fixture.other) == 80, 120, "the other topic to be copied on")
    assert fixture.copied(fixture.held) == 40
    second.end()
    wait_until(lambda: _holder_above(fixture, newer or 0), 120, "the first one to take over again")
    assert fixture.tool("resume", fixture.held)[0] == 0
    wait_until(lambda: fixture.copied(fixture.held) == 80, 120, "the topic to be copied on")
    first.end()
    fixture.assert_all_copied()


def _state(fixture: Fixture) -> Assignments:
    state = Assignments()
    topic = fixture.pipeline.coordination.assignment.topic
    for record in read_all(fixture.target, topic, isolation="read_uncommitted"):
        state.apply(fixture.pipeline.group, record.offset, record.key, record.value)
    return state


def _holder_above(fixture: Fixture, older: int) -> int | None:
    """The generation that holds all four partitions, if it is a newer one."""
    claims = _state(fixture).claims.values()
    holders = {claim.generation for claim in claims}
    return max(holders) if len(claims) == 4 and len(holders) == 1 and min(holders) > older else None


@MODES
def test_slots_that_are_killed_while_a_topic_is_paused_or_resumed(make: Callable[[str], Fixture], mode: str) -> None:
    fixture = make(mode)
    fixture.write(fixture.held, 200)
    fixture.write(fixture.other, 200)
    for command in ("pause", "resume", "pause", "resume"):
        runner, kill = in_processes()
        running = Running(fixture.pipeline, 2, runner)
        wait_until(lambda: running.progress, 120, "the copy to begin")  # noqa: B023
        assert fixture.tool(command, fixture.held)[0] == 0
        kill()
        running.end()
        fixture.write(fixture.held, 50)
        fixture.write(fixture.other, 50)
    outcome = copy(fixture.pipeline)
    assert outcome.stopped == {}
    fixture.assert_all_copied()


def _assert_nothing_lost(fixture: Fixture, topic: str) -> None:
    for partition in range(2):
        wanted = [r.value for r in read_all(fixture.source, topic) if r.partition == partition]
        found = [r.value for r in read_all(fixture.target, topic) if r.partition == partition]
        assert set(found) == set(wanted)
        assert len(found) >= len(wanted)


def test_what_cannot_be_paused_or_resumed_is_refused(make: Callable[[str], Fixture]) -> None:
    fixture = make("enabled")
    code, said = fixture.tool("pause", "nothing-of-that-name", fixture.held)
    assert code == 3
    assert "not on the source, or not selected" in said
    code, said = fixture.tool("resume", fixture.held)
    assert (code, "no topic is paused" in said) == (3, True)
    fixture.tool("pause", fixture.other)
    code, said = fixture.tool("resume", fixture.held, fixture.other)
    assert code == 3
    assert f"1 topic not paused: {fixture.held}; paused are {fixture.other}. Nothing was changed" in said
    _, said = fixture.tool("describe")
    assert yaml.safe_load(said)["committed"] == []
    assert TopicPartition(fixture.held, 0) not in {r.source for r in commit_records(fixture.pipeline, fixture.target)}
