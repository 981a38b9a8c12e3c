"""Two pipelines at once on the same control topics, killed again and again: neither sees anything of the other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from k2k_assets.control.assignment_state import Assignments
from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, read_all, unique
from k2k_assets_tests.support.copies.copying import Running, commit_records, copy, in_processes, mapping_records
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.takeovers import Flow, assert_all_copied, copied_to

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def pair(clusters: KafkaSandbox, directory: Path, modes: tuple[str, str], one_topic: bool) -> list[Pipeline]:
    """Two pipelines whose names, groups and topics differ, and whose control topics are the same."""
    shared = unique("shared")
    names = (shared, shared) if one_topic else (f"{shared}-commits", f"{shared}-claims")
    coordination = {
        "commit": {"topic": names[0]},
        "assignment": {"topic": names[1], "graceWindow": "5 seconds"},
    }
    pipelines = []
    for mode in modes:
        topic = create_topic(clusters.source_servers, unique("flow"), 2)
        features = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"}
        path = write_pipeline(
            directory, clusters.source_servers, clusters.target_servers, [topic], features=features,
            coordination=coordination, offsetMapping={"topic": f"{shared}-mappings"},
        )  # fmt: skip
        pipelines.append(load_pipeline([path]))
    return pipelines


@pytest.mark.parametrize("one_topic", [False, True], ids=["two topics", "commits and claims in one"])
@pytest.mark.parametrize("modes", [("enabled", "enabled"), ("enabled", "disabled"), ("disabled", "disabled")])
def test_pipelines_that_share_their_control_topics_and_are_killed(
    clusters: KafkaSandbox, tmp_path: Path, modes: tuple[str, str], one_topic: bool
) -> None:
    rng = random.Random(f"{modes} {one_topic}")
    pipelines = pair(clusters, tmp_path, modes, one_topic)
    flows = [Flow(clusters, (pipeline.selection.literal or ("",))[0], 2) for pipeline in pipelines]
    for _ in range(3):
        lives = [in_processes() for _ in pipelines]
        running = [Running(pipeline, 2, runner) for pipeline, (runner, _) in zip(pipelines, lives, strict=True)]
        for flow in flows:
            flow.write(100)
        first = rng.randrange(2)  # the other one lives on for a while
        _await_copied(clusters, pipelines[first], 1)
        lives[first][1]()
        flows[1 - first].write(50)
        running[first].end()
        _await_copied(clusters, pipelines[1 - first], flows[1 - first].written)
        lives[1 - first][1]()
        running[1 - first].end()
    for pipeline, flow in zip(pipelines, flows, strict=True):
        assert copy(pipeline).stopped == {}
        assert assert_all_copied(clusters, pipeline, overtaken=True) >= flow.written
    _assert_apart(clusters, pipelines)


def _await_copied(clusters: KafkaSandbox, pipeline: Pipeline, offsets: int) -> None:
    wait_until(lambda: copied_to(pipeline, clusters) >= offsets, 120, f"{offsets} offsets to be copied")


def _assert_apart(clusters: KafkaSandbox, pipelines: list[Pipeline]) -> None:
    """Each has its own records, all of which name its own topics alone."""
    target = clusters.target_servers
    assignment = read_all(target, pipelines[0].coordination.assignment.topic, isolation="read_uncommitted")
    for pipeline in pipelines:
        own = set(pipeline.selection.literal or ())
        assert {r.source.topic for r in commit_records(pipeline, target)} == own
        assert {r.topic for r in mapping_records(pipeline, target)} == own
        state = Assignments()
        for record in assignment:
            state.apply(pipeline.group, record.offset, record.key, record.value)
        assert {instance.pipeline for instance in state.instances.values()} <= {pipeline.name}
        assert {claim.topic for claim in state.claims.values()} <= own
