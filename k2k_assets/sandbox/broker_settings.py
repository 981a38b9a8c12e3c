"""What a broker of the sandbox is told: `server.properties`, the flags of its Java, and its ports."""

from __future__ import annotations

import base64
import itertools
import json
import random
import socket
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Below the ports that systems hand out for outgoing connections (Linux: from 32768, macOS: from 49152), so
# that none of them takes the port of a broker that is down for a moment.
_PORTS = range(20_000, 32_000)
# Those that this process has drawn: nobody may listen at them yet.
_drawn: set[int] = set()
_drawing = threading.Lock()

# One node: nothing can be replicated, and few partitions of internal topics make the first use fast.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    # What a dead writer left open is aborted soon after its time-out, not up to 10 s later.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # The cleaner takes this much of the heap at the start; the default is 128 MB.
    "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
    # A broker that was killed is let in again only when its old session is over: 2 s instead of 9.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    # A third of what an idle broker costs: records that say that there is nothing to say, twice a second.
    "metadata.max.idle.interval.ms": "0",
}

SMALL = {"num.io.threads": "2", "num.network.threads": "1"}
"""For a broker that has a few clients and is to cost little: idle threads ask for work several times a second."""

_LOGGING_FLAGS = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
    # Some 300 lines of settings at each start.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
    # All is logged by the above. Log4j, by which alone log levels could be changed from afar, need not be set up.
    "-Dlog4j.provider=org.apache.logging.log4j.simple.internal.SimpleProvider",
)
# Small and quick to start: the just-in-time compiler's first tier only.
_TEST_FLAGS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# As Kafka's own start script has it.
_BENCHMARK_FLAGS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:-UsePerfData")


class BrokerIdentity(NamedTuple):
    """What stays the same over a broker's restarts.

    `port` is where clients connect, `controller_port` where the broker finds its own controller, and `mtls_port` where
    clients with a certificate connect to a secured broker.
    """

    cluster_id: str
    port: int
    controller_port: int
    mtls_port: int = 0

    def is_usable(self) -> bool:
        """Whether all ports are known and free."""
        ports = (self.port, self.controller_port, self.mtls_port)
        return all(ports) and all(map(is_free, ports))


def load_identity(directory: Path) -> BrokerIdentity:
    """The identity that a broker's directory holds, or a new one, which is then kept there.

    Ports that are in use by now are replaced.
    """
    path = directory / "identity.json"
    known = BrokerIdentity(**json.loads(path.read_text())) if path.exists() else None
    if known is not None and known.is_usable():
        return known
    identity = BrokerIdentity(known.cluster_id if known else random_id(), *free_ports(3))
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(identity._asdict()))
    return identity


def server_properties(data: Path, identity: BrokerIdentity, extra: Mapping[str, str]) -> str:
    """The text of a broker's `server.properties`.

    Args:
        data: The directory of its logs.
        identity: Its ports.
        extra: Settings that are added, or that replace those of the sandbox.
    """
    settings = {
        **_SETTINGS,
        "listeners": f"PLAINTEXT://127.0.0.1:{identity.port},CONTROLLER://127.0.0.1:{identity.controller_port}",
        "controller.quorum.voters": f"1@127.0.0.1:{identity.controller_port}",
        "log.dirs": str(data),
        **extra,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def java_flags(benchmark: bool) -> tuple[str, ...]:
    """Flags of the broker's Java: heap, collector, compiler, and where its words go."""
    return (*(_BENCHMARK_FLAGS if benchmark else _TEST_FLAGS), *_LOGGING_FLAGS)


def random_id() -> str:
    """A random id as Kafka makes them: 22 characters of URL-safe base 64, the first of them not a dash."""
    while True:
        found = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):  # Kafka's tools would take it for an option
            return found


def is_free(port: int) -> bool:
    """Whether a server could listen at this port of the loopback interface now."""
    with socket.socket() as probe:
        # As the broker does it: a connection that lingers from a broker before does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Different ports at which nothing listens, and which this process has not been given before."""
    with _drawing:
        candidates = (port for port in random.sample(_PORTS, len(_PORTS)) if port not in _drawn and is_free(port))
        ports = list(itertools.islice(candidates, count))
        _drawn.update(ports)
    return ports
