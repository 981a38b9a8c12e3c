"""One pair of clusters for all processes that run tests: each broker costs a start, and then a 30th of a core.

The first process that asks starts a keeper, which has the brokers. Each process holds a lock while it uses them; when
nobody holds it any more, because all have ended or are dead, the keeper ends the brokers. A broker that dies or hangs
is started again, and what it did last is a warning of the test run.
"""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NoReturn, TextIO

from confluent_kafka import KafkaException

from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets.sandbox.broker_settings import BrokerIdentity
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import (
    admin,
    create_topic,
    delete_topic,
    produce,
    refusal,
    renew_admin,
    share,
    unique,
)

_SECONDS = 120.0
_LOOK_SECONDS, _PATIENT_SECONDS, _SILENT_SECONDS = 5.0, 30.0, 60.0
_ROOT = Path(__file__).parents[3]
# Not the sandbox's two threads, because one that waits for a disk would delay everything.
# And not its two seconds until a node counts as lost: one that is held up for longer would leave the cluster without
# any node that could have a topic. One that is started again is let in after so long.
_SETTINGS = {"num.io.threads": "4", "broker.session.timeout.ms": "20000"}


class SharedBroker(Broker):
    """A broker that belongs to another process: it can be used, and nothing can be done to it."""

    def __init__(self, role: Literal["source", "target"], directory: Path, identity: BrokerIdentity) -> None:
        # Not the constructor of a broker that is to be started: that gives it new ports where the old ones are in use.
        self.role = role
        self.directory = directory
        self._identity = identity
        self._security = None

    @property
    def pid(self) -> NoReturn:
        """Nobody's who might send it a signal."""
        raise RuntimeError(refusal(f"'{self.role}'"))

    def is_running(self) -> bool:
        """Always: nobody stops it."""
        return True

    def _signal(self, number: signal.Signals) -> NoReturn:
        raise RuntimeError(refusal(f"'{self.role}'"))


class SharedClusters(KafkaSandbox):
    """Clusters that a keeper has started; `start()` and `stop()` are its business."""

    def __init__(self, brokers: dict[str, SharedBroker]) -> None:
        super().__init__()
        self._brokers.update(brokers)


@contextmanager
def shared_clusters(folder: Path) -> Iterator[SharedClusters]:
    """The clusters of all processes that name the same folder.

    Args:
        folder: It exists, and is new for each run of the tests.
    """
    with _file(folder, "users") as users:
        fcntl.flock(users, fcntl.LOCK_SH)  # waits for a keeper that is about to end
        with _file(folder, "starting") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if not _addresses(folder).exists():
                _start_keeper(folder)
        brokers = _read(_addresses(folder))
        for broker in brokers.values():
            share(broker.servers)
        yield SharedClusters(brokers)
        if told := _path(folder, "log").read_text(errors="replace"):
            warnings.warn(f"shared clusters: {told}", stacklevel=1)


def _start_keeper(folder: Path) -> None:
    with _file(folder, "log") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder)],
            cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    wait_until(lambda: keeper.poll() is not None or _addresses(folder).exists(), _SECONDS, "the shared clusters")
    if keeper.poll() is not None:
        raise RuntimeError(f"The shared clusters did not start:\n{_path(folder, 'log').read_text()}")


def _keep(folder: Path) -> None:
    """Has the clusters for as long as anybody uses them."""
    with _file(folder, "users") as users, KafkaSandbox(settings=_SETTINGS) as clusters:
        for servers in (clusters.source_servers, clusters.target_servers):
            _use_once(servers)
        brokers = {broker.role: _described(broker) for broker in (clusters.source, clusters.target)}
        write_atomically(_addresses(folder), json.dumps(brokers))
        threading.Thread(target=_watch, args=(clusters, folder), daemon=True).start()
        fcntl.flock(users, fcntl.LOCK_EX)
        _addresses(folder).unlink(missing_ok=True)


def _watch(clusters: KafkaSandbox, folder: Path) -> None:
    """Starts a broker again that is gone, or answers nothing for a minute: all tests behind it would fail, untold."""
    heard = {broker: time.monotonic() for broker in (clusters.source, clusters.target)}
    while _addresses(folder).exists():
        for broker in heard:
            if _answers(broker):
                heard[broker] = time.monotonic()
            elif not broker.is_running() or (
                time.monotonic() - heard[broker] > _SILENT_SECONDS and not _answers_another_client(broker)
            ):
                _tell(broker)
                broker.restart(kill=True)
                heard[broker] = time.monotonic()
        time.sleep(_LOOK_SECONDS)


def _answers(broker: Broker, seconds: float = _LOOK_SECONDS) -> bool:
    with suppress(KafkaException):
        return broker.is_running() and bool(admin(broker.servers).list_topics(timeout=seconds).brokers)
    return False


def _answers_another_client(broker: Broker) -> bool:
    """Whether it answers a new client, with patience: the old one may be at fault, or the machine slow."""
    renew_admin(broker.servers)
    return _answers(broker, _PATIENT_SECONDS)


def _tell(broker: Broker) -> None:
    """Says what a broker does, or did last, for whoever reads why tests failed."""
    print(f"The broker '{broker.role}', process {broker.pid}, does not answer. The end of its log:", flush=True)
    print(broker.log_tail(40), flush=True)
    if broker.pid is not None:
        state = Path(f"/proc/{broker.pid}/status").read_text().partition("State:")[2].partition("\n")[0]
        print(f"Its process is in state {state.strip()}. Its threads:", flush=True)
        with suppress(OSError, subprocess.SubprocessError):
            jstack = ["jcmd", str(broker.pid), "Thread.print"]
            print(subprocess.run(jstack, capture_output=True, text=True, timeout=_SECONDS).stdout, flush=True)


def _use_once(servers: str) -> None:
    """Lets a broker make Kafka's own topics: of several clients that find them missing at the same time, some are never
    told that they are there (librdkafka 2.16, `alter_consumer_group_offsets`)."""
    topic = create_topic(servers, unique("first"))
    produce(servers, topic, [b""], transactional_id=unique("first"))
    commit(servers, unique("first"), {TopicPartition(topic, 0): 1})
    delete_topic(servers, topic)


def _described(broker: Broker) -> dict[str, object]:
    return {"directory": str(broker.directory), "identity": broker._identity._asdict()}


def _read(addresses: Path) -> dict[str, SharedBroker]:
    roles: tuple[Literal["source", "target"], ...] = ("source", "target")
    found = json.loads(addresses.read_text())
    return {
        role: SharedBroker(role, Path(found[role]["directory"]), BrokerIdentity(**found[role]["identity"]))
        for role in roles
    }


def _addresses(folder: Path) -> Path:
    return _path(folder, "addresses")


def _file(folder: Path, name: str) -> TextIO:
    return _path(folder, name).open("a")


def _path(folder: Path, name: str) -> Path:
    return folder / f"shared-clusters.{name}"


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
