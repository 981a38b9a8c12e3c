"""All programs as processes with only the permissions from `k2k acls`; their output has no secret."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from confluent_kafka.admin import AclOperation

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.discovery import refresh
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.permissions.permissions_fixture import PermissionsFixture
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.secure import pem_texts, scram, secrets_of
from k2k_assets_tests.support.copies.copying import assert_same_content
from k2k_assets_tests.support.dagster.runs import last_verdicts, of_everything
from k2k_assets_tests.support.suite.secrets import SecretsSearch

pytestmark = pytest.mark.integration

ONLY_READING = {AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS}
WRONG = "wrong-password-4711"


class Programs:
    """Runs commands one after the other; all that they write goes below a folder.

    Args:
        folder: Of the test; it has the pipeline files in `pipelines`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        places = {name: folder / name for name in ("temporary", "dagster", "home")}
        for place in places.values():
            place.mkdir()
        self.home, self.dagster_home = places["home"], places["dagster"]
        self._environment = {
            **os.environ,
            "TMPDIR": str(places["temporary"]),
            "SPARK_LOCAL_DIRS": str(places["temporary"]),
            "DAGSTER_HOME": str(places["dagster"]),
            "K2K_HOME": str(places["home"]),
            "K2K_PIPELINES": str(folder / "pipelines"),
        }

    def run(self, name: str, *arguments: object, code: int = 0) -> str:
        """Runs a Python module with its arguments, and returns what it printed; it must end with the code."""
        printed = self._folder / f"{name}.out"
        with printed.open("wb") as out:
            ended = subprocess.run(
                [sys.executable, "-m", *map(str, arguments)],
                stdout=out, stderr=out, env=self._environment, cwd=self._folder, timeout=500, check=False,
            )  # fmt: skip
        assert ended.returncode == code, (name, printed.read_text())
        return printed.read_text()


class World(NamedTuple):
    """A source topic with records and a group, and a pipeline of a user who has just been given its rights."""

    fixture: PermissionsFixture
    path: Path
    topic: str
    group: str


@pytest.fixture
def world(secure_clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The source's password is in the environment, the target's key in the settings themselves."""

    def from_environment(broker: Broker, user: str) -> dict[str, str]:
        monkeypatch.setenv("SOURCE_PASSWORD", broker.security.password_file(user).read_text())
        return {**scram(broker, user), "sasl.password": "${env:string:SOURCE_PASSWORD}"}

    folder = tmp_path / "pipelines"
    folder.mkdir()
    fixture = PermissionsFixture(secure_clusters, folder, (from_environment, pem_texts))
    topic = kafka.create_topic(fixture.servers("source"), kafka.unique("whole"), 2)
    for partition in range(2):
        values = [b"%d" % n for n in range(50)]
        kafka.produce(fixture.servers("source"), topic, values, partition, kafka.unique("tx"))
    group = kafka.unique("group")
    commit(fixture.servers("source"), group, {TopicPartition(topic, 1): 20})
    path = fixture.pipeline_file([topic], groups={"consumerGroups": [group]})
    acls = fixture.acls(path)
    assert {acl.operation for acl in acls["source"]} <= ONLY_READING  # G5, by the cluster's own word
    fixture.grant(acls)
    return World(fixture, path, topic, group)


@pytest.mark.slow
@pytest.mark.spark
def test_with_what_k2k_acls_prints_all_programs_do_their_work_and_write_no_secret(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, broken = world.path, _broken_copy(world.path, tmp_path)
    programs = Programs(tmp_path)
    pipeline = load_pipeline([path])
    monkeypatch.setenv("K2K_HOME", str(programs.home))
    with both_clusters(pipeline) as clusters:
        assert set(refresh(pipeline, *clusters).groups) == {world.group}

    secrets = {**secrets_of(*world.fixture.brokers.values()), "wrong": WRONG.encode()}
    main = "k2k_assets.cli.main"
    with SecretsSearch(secrets, tmp_path) as search:
        programs.run("validate", main, "validate", "--connect", "-f", path)
        programs.run("start", main, "start", "--once", "-f", path, "-l", tmp_path / "ended")
        programs.run("dagster", *of_everything(pipeline, tmp_path)[1:])
        moved = held(world.fixture.servers("target"), world.group)
        programs.run("mapper", "k2k_assets.cli.offset_mapping", "start", "--once", "-f", path)
        at = ("--topic", world.topic, "--partition", 1, "--offset", 20)
        told = programs.run("tool", "k2k_assets.cli.tool", "translate", "-f", path, *at)
        programs.run("failing", main, "start", "--once", "-f", broken, "-l", tmp_path / "failed", code=3)

    verdicts = last_verdicts(programs.dagster_home)
    assert verdicts.keys() > CHECKS.keys()
    assert all(verdicts.values()), verdicts
    source, target = world.fixture.servers("source"), world.fixture.servers("target")
    copied = pipeline.routing.target_topic(world.topic)
    assert assert_same_content(source, world.topic, target, copied) == 100
    (offset, _) = moved[TopicPartition(copied, 1)]
    read = kafka.read_all(target, copied, 1)
    assert next(record.value for record in read if record.offset >= offset) == b"20"
    assert f"{offset:,}" in told

    assert (tmp_path / "failed").read_text().startswith("the source cluster at")
    assert {"start", "execute", "org.apache.spark.deploy.SparkSubmit"} <= search.programs
    assert list(programs.dagster_home.rglob("*.db"))
    assert not search.in_arguments
    assert not search.in_open_files
    assert search.in_files() == {broken}
    assert not search.found_in(repr(pipeline).encode())


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    waiting = [sys.executable, "-c", "import sys; sys.stdin.read()", "s3cret-in-arguments"]
    with (
        SecretsSearch({"one": b"s3cret-in-arguments", "two": b"s3cret-in-file"}, tmp_path) as search,
        subprocess.Popen(waiting, stdin=subprocess.PIPE) as process,
    ):
        path = tmp_path / "open"
        path.write_text("a s3cret-in-file b")
        path.chmod(0o644)
        wait_until(lambda: search.in_arguments and search.in_open_files, 120, "both to be found")
        process.kill()
    assert {name for name, _ in search.in_arguments} == {"one"}
    assert search.in_open_files == {path} == search.in_files()


def test_the_search_looks_into_databases(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    search = SecretsSearch({"one": b"s3cret-in-a-snapshot"}, tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE snapshots (id INTEGER, body BLOB)")
        database.execute("INSERT INTO snapshots VALUES (1, ?)", (zlib.compress(b"{" * 99 + b"s3cret-in-a-snapshot"),))
        database.commit()
    assert search.in_files() == {path}


def _broken_copy(path: Path, folder: Path) -> Path:
    """The same pipeline with a wrong password."""
    document: Mapping[str, Any] = yaml.safe_load(path.read_text())
    document["source"]["kafka"]["common"]["sasl.password"] = WRONG
    broken = folder / "broken.yaml"
    broken.touch(0o600)
    broken.write_text(yaml.safe_dump(document))
    return broken
