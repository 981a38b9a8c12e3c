"""A crash of the process that reads groups' positions does not end this process.

A test also shows the crash. When it no longer happens, librdkafka is fixed, and `kafka.apart`
can be removed.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaError

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_rights import is_restricted_here
from k2k_assets.kafka.group_reader import fetch_offsets, fetch_offsets_here
from k2k_assets.kafka.groups import Fetched
from k2k_assets.permissions.granted import is_restricted
from k2k_assets_tests.support.brokers.kafka import SECONDS
from k2k_assets_tests.support.brokers.scripted_broker import CLUSTER_ID, ScriptedBroker

pytestmark = pytest.mark.processes

Fetch = Callable[[Cluster, list[str]], Fetched]


def _answered(fetch: Fetch, cluster: Cluster) -> bool:
    with suppress(ClusterUnreachable):
        found = fetch(cluster, ["readers"])
        return set(found.groups) == {"readers"}
    return False


def broker_that_comes_back(fetch: Fetch) -> None:
    """A question times out while the coordinator is away."""
    with ScriptedBroker() as broker, Cluster("source", {"bootstrap.servers": broker.servers}, 0.5) as cluster:
        wait_until(lambda: _answered(fetch, cluster), SECONDS, "the coordinator")
        broker.stop()
        assert not _answered(fetch, cluster)
        broker.start()
        wait_until(lambda: _answered(fetch, cluster), SECONDS, "the coordinator to come back")


def coordinator_that_moves(fetch: Fetch) -> None:
    """The coordinator says that it is none any more, and then that it is."""
    with ScriptedBroker() as broker, Cluster("source", {"bootstrap.servers": broker.servers}, 0.5) as cluster:
        wait_until(lambda: _answered(fetch, cluster), SECONDS, "the coordinator")
        broker.group_error = KafkaError.NOT_COORDINATOR
        assert not _answered(fetch, cluster)
        broker.group_error = 0
        wait_until(lambda: _answered(fetch, cluster), SECONDS, "the coordinator to be one again")


Fixture = Callable[[Fetch], None]


@pytest.mark.parametrize("fixture", [broker_that_comes_back, coordinator_that_moves])
def test_asked_apart(fixture: Fixture) -> None:
    """The questions that end a process are answered where a child process asks them."""
    fixture(fetch_offsets)


def _here(fixture: Fixture) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    fixture(fetch_offsets_here)


def broker_that_was_frozen(look: Callable[[Cluster], str], topic: str = "") -> None:
    """The only broker of a cluster does not take part in it: there is none to be named."""
    with ScriptedBroker() as broker, Cluster("source", {"bootstrap.servers": broker.servers}, SECONDS) as cluster:
        broker.topic = topic
        assert look(cluster) == CLUSTER_ID
        broker.takes_part, looks = False, broker.looks
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(look, cluster)
            wait_until(lambda: broker.looks > looks + 1, SECONDS, "the broker to be asked again")
            broker.takes_part = True
            assert answer.result(SECONDS) == CLUSTER_ID


@pytest.mark.parametrize("topic", ["", "orders"])
def test_a_broker_is_waited_for_that_takes_part(topic: str) -> None:
    """Whether there are topics to be told of or not."""
    broker_that_was_frozen(Cluster.cluster_id, topic)


def test_a_question_that_gets_lost_while_none_takes_part_is_asked_again() -> None:
    """A client that was told of no broker forgets the one that it knew: at times with a question on its way there."""
    with ScriptedBroker() as broker, Cluster("source", {"bootstrap.servers": broker.servers}, 30.0) as cluster:
        assert cluster.cluster_id() == CLUSTER_ID
        broker.takes_part, looks = False, broker.looks
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(cluster.cluster_id)
            wait_until(lambda: broker.looks > looks + 1, SECONDS, "the broker to be asked again")
            broker.unheard = 1
            wait_until(lambda: not broker.unheard, SECONDS, "a question to get lost")
            broker.takes_part = True
            assert answer.result(25) == CLUSTER_ID


def test_a_cluster_in_which_no_broker_takes_part() -> None:
    with ScriptedBroker() as broker, Cluster("source", {"bootstrap.servers": broker.servers}, 5.0) as cluster:
        assert cluster.cluster_id() == CLUSTER_ID
        broker.takes_part, broker.topic = False, "orders"
        with pytest.raises(ClusterUnreachable, match="none of its brokers takes part"):
            cluster.topics()


def _by_describe_cluster(cluster: Cluster) -> str:
    return str(cluster.admin.describe_cluster(request_timeout=SECONDS).result(SECONDS).cluster_id)


def _frozen_here() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    broker_that_was_frozen(_by_describe_cluster)


@pytest.mark.storm
def test_by_describe_cluster_the_process_dies() -> None:
    assert _exit_code(multiprocessing.get_context("spawn").Process(target=_frozen_here)) == -signal.SIGABRT


def broker_that_leaves(look: int, ask: Callable[[Cluster], bool]) -> bool:
    """It takes part when that is looked for, and a moment later, when it is asked what is allowed, it does not."""
    with ScriptedBroker() as broker, Cluster("target", {"bootstrap.servers": broker.servers}, SECONDS) as cluster:
        broker.away = (look,)
        return ask(cluster)


@pytest.mark.parametrize("look", range(1, 6))
def test_what_is_allowed_is_asked_apart(look: int) -> None:
    assert broker_that_leaves(look, lambda cluster: is_restricted(cluster)()), "it knows of no rights"


def _rights_here(look: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    broker_that_leaves(look, is_restricted_here)


@pytest.mark.storm
def test_asked_what_is_allowed_here_the_process_dies() -> None:
    spawn = multiprocessing.get_context("spawn")
    ends = [_exit_code(spawn.Process(target=_rights_here, args=(look,))) for look in range(1, 6)]
    assert -signal.SIGABRT in ends


@pytest.mark.storm
@pytest.mark.parametrize(
    ("fixture", "death"), [(broker_that_comes_back, signal.SIGABRT), (coordinator_that_moves, signal.SIGSEGV)]
)
def test_asked_here_the_process_dies(fixture: Fixture, death: signal.Signals) -> None:
    assert _exit_code(multiprocessing.get_context("spawn").Process(target=_here, args=(fixture,))) == -death


def _exit_code(process: SpawnProcess) -> int | None:
    process.start()
    process.join(2 * SECONDS)
    process.kill()
    return process.exitcode


def _pid(_: Cluster) -> int:
    return os.getpid()


def _die_at_first(_: Cluster, once: Path) -> str:
    if not once.exists():
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "the second time"


def _die(_: Cluster) -> None:
    os.kill(os.getpid(), signal.SIGABRT)


def _refuse(cluster: Cluster, why: str) -> None:
    raise Refused(f"{cluster.role}: {why}")


def _fail(_: Cluster) -> None:
    raise ValueError("a mistake")


def _nobody(timeout: float = 5.0) -> Cluster:
    return Cluster("target", {"bootstrap.servers": "127.0.0.1:1"}, timeout)


def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    with _nobody(timeout=60.0) as cluster:  # a process starts slowly on a busy machine
        assert cluster.apart(_die_at_first, tmp_path / "died") == "the second time"
        first = cluster.apart(_pid)
        assert cluster.apart(_pid) == first != os.getpid()
        psutil.Process(first).kill()
        assert cluster.apart(_pid) != first


def test_one_that_dies_of_every_question() -> None:
    with _nobody(timeout=0.1) as cluster, pytest.raises(ClusterUnreachable, match=r"target cluster .* ended with -6"):
        cluster.apart(_die)


def test_errors_come_across() -> None:
    with _nobody() as cluster:
        with pytest.raises(Refused, match=r"^target: it does not like it$"):
            cluster.apart(_refuse, "it does not like it")
        with pytest.raises(RuntimeError, match="ValueError: a mistake"):
            cluster.apart(_fail)


def test_it_ends_with_the_cluster() -> None:
    with _nobody() as cluster:
        pid = cluster.apart(_pid)
    assert not psutil.pid_exists(pid)


def test_it_ends_with_a_process_that_is_killed() -> None:
    program = f"from {__name__} import _nobody, _pid; print(_nobody().apart(_pid), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    wait_until(lambda: not psutil.pid_exists(pid), SECONDS, "the process to end")
