"""The clusters that all test processes share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from confluent_kafka import KafkaException

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets.sandbox.broker_settings import BrokerIdentity, is_free
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers import shared_clusters as shared
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, delete_topic, topics, unique
from k2k_assets_tests.support.brokers.shared_clusters import SharedBroker, shared_clusters
from k2k_assets_tests.support.suite.order import with_own_clusters

_USER = """
import sys
from pathlib import Path
from k2k_assets_tests.support.brokers.shared_clusters import shared_clusters
with shared_clusters(Path(sys.argv[1])) as clusters:
    print(clusters.source_servers, clusters.target_servers, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.integration
def test_they_live_for_as_long_as_anybody_uses_them(tmp_path: Path) -> None:
    users = [_user(tmp_path) for _ in range(2)]
    said = {user.stdout.readline() for user in users if user.stdout}
    assert len(said) == 1, "both have the same"
    servers = said.pop().split()
    topic = create_topic(servers[0], unique("shared"))
    users[0].kill()
    users[0].wait(SECONDS)
    assert topic in topics(servers[0])
    users[1].communicate(timeout=SECONDS)
    assert users[1].returncode == 0
    wait_until(lambda: all(is_free(int(address.rpartition(":")[2])) for address in servers), SECONDS, "their end")


@pytest.mark.slow
@pytest.mark.integration
def test_a_broker_that_dies_is_started_again_and_told(tmp_path: Path) -> None:
    clusters = shared_clusters(tmp_path)
    found = clusters.__enter__()
    topic = create_topic(found.source_servers, unique("shared"))
    (process,) = (each for each in psutil.process_iter(["cmdline"]) if _is_program_of(each, found.source))
    process.kill()
    process.wait(SECONDS)

    def is_back() -> bool:
        with suppress(KafkaException):
            return topic in topics(found.source_servers)
        return False

    wait_until(is_back, 6 * SECONDS, "the broker")
    with pytest.warns(UserWarning, match="'source', process None, does not answer"):
        clusters.__exit__(None, None, None)


def test_a_broker_that_answers_another_client_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may go silent for good; a broker that is killed for that ends the tests of all processes."""
    addresses = shared._addresses(tmp_path)
    addresses.touch()
    asked: list[float] = []

    def answers(_: object, seconds: float = shared._LOOK_SECONDS) -> bool:
        asked.append(seconds)
        if len(asked) == 8:
            addresses.unlink()
        return seconds == shared._PATIENT_SECONDS

    monkeypatch.setattr(shared, "_answers", answers)
    monkeypatch.setattr(shared, "_SILENT_SECONDS", -1.0)
    monkeypatch.setattr(shared, "_LOOK_SECONDS", 0.0)
    source, target = (
        Mock(servers="s:9092", is_running=lambda: True, restart=lambda kill: pytest.fail("killed")) for _ in range(2)
    )
    clusters: Any = SimpleNamespace(source=source, target=target)
    shared._watch(clusters, tmp_path)
    assert asked.count(shared._PATIENT_SECONDS) == 4, "each time that it seems silent"


def _is_program_of(process: psutil.Process, broker: Broker) -> bool:
    command = [str(word) for word in process.info["cmdline"] or [""]]
    return command[0].endswith("java") and command[-1].startswith(str(broker.directory))


def _user(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _USER, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("harm", [Broker.pause, Broker.resume, Broker.kill, Broker.stop, Broker.restart])
def test_nobody_does_them_harm(tmp_path: Path, harm: Callable[[Broker], None]) -> None:
    """A test cannot stop or freeze the clusters that all tests use: it is told to ask for its own."""
    broker = SharedBroker("source", tmp_path, BrokerIdentity("id", 9092, 9093))
    broker.start()
    assert broker.servers == "127.0.0.1:9092"
    with pytest.raises(RuntimeError, match="use the broker 'source' at the same time: mark a test with own_clusters"):
        harm(broker)


def test_nobody_changes_their_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_shared", {"127.0.0.1:9092"})
    with pytest.raises(
        RuntimeError, match=r"use the broker 127\.0\.0\.1:9092 at the same time: mark a test with own_clusters"
    ):
        kafka.speed_up_compaction("127.0.0.1:9092")


@pytest.mark.integration
def test_each_process_deletes_only_the_topics_that_it_has_named(
    clusters: KafkaSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = clusters.source_servers
    monkeypatch.setattr(kafka, "_shared", {servers})
    own = create_topic(servers, f"{unique('own')}.orders")
    others = create_topic(servers, f"others-ff{unique('')[-8:]}.orders")
    kafka.delete_own_topics(servers)
    wait_until(lambda: own not in topics(servers), SECONDS, "its end")
    assert others in topics(servers)
    delete_topic(servers, others)


def test_the_scheduler_knows_by_name_which_files_are_marked(request: pytest.FixtureRequest) -> None:
    """It has no marks, and reads the source instead: of all tests that are selected now it finds what pytest does."""
    tests = request.session.items
    marked = {test.nodeid.partition("::")[0] for test in tests if test.get_closest_marker("own_clusters")}
    assert with_own_clusters(test.nodeid for test in tests) == marked
    file = "k2k_assets_tests/sandbox/test_broker.py"
    assert with_own_clusters([f"{file}::test_a_frozen_broker_answers_again"]) == {file}
    assert with_own_clusters([f"{file}::test_two_clusters_are_two"]) == set()
    file = "k2k_assets_tests/replication/running/test_broker_restart.py"
    assert with_own_clusters([f"{file}::test_a_killed_broker_that_comes_back[source-enabled]"]) == {file}
