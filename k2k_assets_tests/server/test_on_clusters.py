"""`k2k-tool server` as a process, over real copies on real clusters."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import yaml

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_records, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import Running, copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.services.tool_server import COMMAND, tool_server

pytestmark = pytest.mark.integration

EXACT = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}


class World:
    """A copied topic, and the server that shows it."""

    def __init__(self, clusters: KafkaSandbox, folder: Path) -> None:
        self.clusters = clusters
        self.topic = create_topic(clusters.source_servers, unique("served"), 2)
        self.group = unique("readers")
        self.name = unique("served")
        self.folder = folder
        servers = clusters.source_servers, clusters.target_servers
        groups = {"consumerGroups": self.group}
        self.file = write_pipeline(folder, *servers, [self.topic], name=self.name, features=EXACT, groups=groups)
        self.id = f"{self.name}:{self.pipeline.group}"
        self.client = httpx.Client(timeout=60.0)

    @property
    def pipeline(self) -> Pipeline:
        """What is copied."""
        return load_pipeline([self.file])

    def write(self, count: int, partition: int = 0) -> None:
        """Writes records to the source."""
        produce(self.clusters.source_servers, self.topic, [b"%d" % n for n in range(count)], partition=partition)

    def get(self, path: str = "") -> dict[str, Any]:
        """What the API says about the pipeline, once it is fresh."""
        found: dict[str, Any] = self.client.get(f"/api/v1/pipelines/{self.id}{path}").json()
        return found

    def post(self, path: str, **body: Any) -> httpx.Response:
        """Asks for a change."""
        return self.client.post(f"/api/v1/pipelines/{self.id}/{path}", json=body)

    def await_that(self, shown: Any, what: str) -> None:
        """Waits until the page would show something."""
        wait_until(lambda: shown(self.get()), 120.0, what)

    def position(self, partition: int = 0) -> int:
        """By the commit log itself."""
        with both_clusters(self.pipeline) as (source, target):
            log = read_commit_log(self.pipeline, source.cluster_id(), target)
        return log.positions[TopicPartition(self.topic, partition)].position


@pytest.fixture
def world(clusters: KafkaSandbox, tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    made = World(clusters, folder)
    with tool_server("--dir", folder) as address:
        made.client.base_url = httpx.URL(address)
        yield made
        made.client.close()


def test_what_it_shows_is_what_is_there_and_as_its_openapi_says(world: World) -> None:
    world.write(30)
    world.write(12, partition=1)
    copy(world.pipeline)
    commit(world.clusters.source_servers, world.group, {TopicPartition(world.topic, 0): 7})
    world.write(5)
    listed = world.client.get("/api/v1/pipelines").json()
    assert [(one["id"], one["fault"]) for one in listed["pipelines"]] == [(world.id, None)]
    found = world.get()
    status = found["status"]
    assert (found["error"], found["stops"], status["lag"]) == (None, [], 5)
    assert status["secondsBehind"] >= 0
    (topic,) = status["topics"]
    shown = {one["partition"]: (one["position"], one["end"], one["lag"]) for one in topic["partitions"]}
    assert shown == {0: (world.position(0), 35, 5), 1: (world.position(1), 12, 0)}
    groups = world.get("/groups")
    assert groups["groups"] == [
        {"group": world.group, "source": [{"topic": world.topic, "partition": 0, "offset": 7}], "target": []}
    ]
    described = world.client.get("/api/v1/openapi.json").json()
    for schema, answer in (("Pipelines", listed), ("PipelineState", found), ("MovedGroupsDocument", groups)):
        _conforms(described, schema, answer)


def _conforms(described: dict[str, Any], schema: str, answer: Any) -> None:
    whole = {"$ref": f"#/components/schemas/{schema}", "components": described["components"]}
    jsonschema.validate(answer, whole, cls=jsonschema.Draft202012Validator)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"unlike": "any answer"}, whole, cls=jsonschema.Draft202012Validator)


def test_a_stopped_topic_is_put_right_in_two_steps(world: World) -> None:
    """The first step changes nothing; the second changes what the first has shown, and only that."""
    world.write(20)
    copy(world.pipeline)
    world.write(30)
    delete_records(world.clusters.source_servers, world.topic, 0, 35)
    assert copy(world.pipeline).stopped
    world.await_that(lambda found: found["stops"], "the stop")
    (stop,) = world.get()["stops"]
    assert (stop["topic"], stop["partition"], stop["code"]) == (world.topic, 0, "records-deleted")
    assert str(world.file) in stop["remedy"]
    (remedy, *_) = stop["remedies"]
    before = world.position()
    planned = world.post("positions", **remedy).json()
    assert (planned["applied"], planned["changes"][0]["before"], planned["changes"][0]["position"]) == (False, 20, 35)
    assert world.position() == before == 20
    done = world.post("positions", **remedy, plan=planned["plan"], reason=None)
    assert (done.status_code, done.json()["applied"]) == (200, True)
    assert world.position() == 35
    described = world.client.get("/api/v1/openapi.json").json()
    _conforms(described, "ChangesDocument", done.json())
    assert not copy(world.pipeline).stopped
    assert len(read_all(world.clusters.target_servers, world.topic)) == 20 + 15
    world.await_that(lambda found: not found["stops"] and found["status"]["lag"] == 0, "the end of the stop")


def test_a_plan_that_is_another_one_by_now_is_not_carried_out(world: World) -> None:
    world.write(20)
    copy(world.pipeline)
    asked = {"offsets": [f"{world.topic}:0:5"], "reason": "test"}
    plan = world.post("positions", **asked).json()["plan"]
    world.write(10)
    copy(world.pipeline)
    stale = world.post("positions", **asked, plan=plan)
    assert (stale.status_code, stale.json()["applied"], world.position()) == (409, False, 30)
    assert "changed since" in stale.json()["error"]
    other = world.post("positions", offsets=[f"{world.topic}:0:6"], reason="test", plan=stale.json()["plan"])
    assert (other.status_code, world.position()) == (409, 30)
    assert world.post("positions", **asked, plan=stale.json()["plan"]).status_code == 200
    assert world.position() == 5


def test_who_did_it_and_why_is_in_the_commit_log(world: World) -> None:
    world.write(20)
    copy(world.pipeline)
    asked = {"reset": True, "reason": "copied anew"}
    assert world.post("positions", **asked, plan=world.post("positions", **asked).json()["plan"]).json()["applied"]
    with both_clusters(world.pipeline) as (source, target):
        log = read_commit_log(world.pipeline, source.cluster_id(), target)
    done = log.positions[TopicPartition(world.topic, 0)].overridden
    assert done is not None
    assert (done.why, done.by.endswith("(k2k-tool server)")) == ("copied anew", True)


def test_partitions_of_a_running_copy_are_taken_only_by_force(world: World) -> None:
    world.write(20)
    running = Running(world.pipeline, 2)
    running.await_copied(20)
    asked: dict[str, Any] = {"offsets": [f"{world.topic}:0:5"]}
    plan = world.post("positions", **asked).json()["plan"]
    refused = world.post("positions", **asked, plan=plan)
    assert refused.status_code == 409
    assert "has not released" in refused.json()["error"]
    forced = {**asked, "force": True}
    plan = world.post("positions", **forced).json()["plan"]
    assert world.post("positions", **forced, plan=plan).json()["applied"]
    wait_until(lambda: len(read_all(world.clusters.target_servers, world.topic)) == 35, 120, "the second copy")
    running.end()


def test_a_topic_is_paused_and_resumed(world: World) -> None:
    world.write(20)
    copy(world.pipeline)
    assert world.post("pause", topics=[world.topic], reason="night").status_code == 200
    world.await_that(lambda found: found["status"]["topics"][0]["state"] == "paused", "the pause")
    assert world.get()["status"]["topics"][0]["paused"]["reason"] == "night"
    assert world.post("resume", topics=[world.topic]).status_code == 200
    world.await_that(lambda found: found["status"]["topics"][0]["state"] == "active", "its end")
    again = world.post("resume", topics=[world.topic])
    assert (again.status_code, "not paused" in again.json()["error"]) == (409, True)


def test_the_folder_is_followed(world: World) -> None:
    def ids() -> list[str | None]:
        return [one["id"] for one in world.client.get("/api/v1/pipelines").json()["pipelines"]]

    assert ids() == [world.id]
    second = yaml.safe_load(world.file.read_text()) | {"name": "zzz"}
    (world.folder / "zzz.yaml").write_text(json.dumps(second))
    wait_until(lambda: f"zzz:{world.pipeline.group}" in ids(), 120, "the new file")
    (world.folder / "zzz.yaml").unlink()
    wait_until(lambda: ids() == [world.id], 120, "its end")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_word(number: int, world: World) -> None:
    with subprocess.Popen(
        [*COMMAND, "-f", str(world.file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        assert httpx.get(f"{address}api/v1/pipelines/{world.id}", timeout=60.0).status_code == 200
        process.send_signal(number)
        assert (process.wait(60.0), process.stderr.read() if process.stderr else "") == (0, "")
