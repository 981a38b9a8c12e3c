"""One single-node Kafka cluster: a broker with its controller, as a child process.

Responsible for the process and its directory (settings, data, log). It can be stopped, killed, frozen and
started again on the same port and the same data. Which brokers belong together is `kafka_sandbox.py`'s.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.java.class_archive import archive_of, flags_with
from k2k_assets.java.find import find_java
from k2k_assets.sandbox.broker_settings import SMALL, java_flags, load_identity, server_properties
from k2k_assets.sandbox.formatting import format_data, is_formatted
from k2k_assets.sandbox.jars import fetch_jars, kafka_manifest
from k2k_assets.sandbox.security import ADMIN, BrokerSecurity
from k2k_assets.sandbox.supervised import SupervisedProcess

_FORMAT_SECONDS = 60.0
_READY_SECONDS = 60.0


class Broker(SupervisedProcess):
    """A Kafka cluster of one node.

    Args:
        role: "source" or "target": how messages name it.
        directory: Where settings, data and log are; it is made when it is missing. What it holds from an
            earlier start is used again: cluster id, data, and the ports when they are still free.
        temporary: The directory goes when the process that started the broker is gone.
        settings: More lines for `server.properties`, which win over the sandbox's own.
        benchmark: A larger heap and the full just-in-time compiler.
        flags: For Java, instead of those that use the class archive.
        secure: Clients need a password or a certificate, and ACLs say what they may do; see `security`.
        version: Of Kafka; see `kafka_manifest`.
    """

    def __init__(
        self,
        role: Literal["source", "target"],
        directory: Path,
        *,
        temporary: bool = False,
        settings: Mapping[str, str] | None = None,
        benchmark: bool = False,
        flags: Sequence[str] | None = None,
        secure: bool = False,
        version: str | None = None,
    ) -> None:
        self._manifest = kafka_manifest(version)
        self.role = role
        self.directory = directory
        self._settings = dict(settings or {})
        self._benchmark = benchmark
        self._flags = flags
        self._has_answered = False
        self._identity = load_identity(directory)
        super().__init__(self._name(), directory / "broker.log", directory if temporary else None)
        self._security = BrokerSecurity(directory / "security", role) if secure else None

    @property
    def servers(self) -> str:
        """The bootstrap address (of a secured broker: for SCRAM); from the first start on it stays the same."""
        return f"127.0.0.1:{self._identity.port}"

    @property
    def mtls_servers(self) -> str:
        """The bootstrap address of a secured broker for clients with a certificate."""
        return f"127.0.0.1:{self._identity.mtls_port}"

    @property
    def security(self) -> BrokerSecurity:
        """Certificates and passwords of a secured broker."""
        if self._security is None:
            raise K2KError(f"The {self.role} broker is not secured.")
        return self._security

    @property
    def admin_properties(self) -> dict[str, str]:
        """Client properties of somebody who may do everything."""
        if self._security is None:
            return {"bootstrap.servers": self.servers}
        return {"bootstrap.servers": self.mtls_servers, **self._security.mtls_properties(ADMIN)}

    @property
    def cluster_id(self) -> str:
        """The cluster's id; it stays as long as the directory does."""
        return self._identity.cluster_id

    def start(self, wait: bool = True) -> None:
        """Starts the broker on its port and data, formatting the directory first if it is new.

        Args:
            wait: Return when it answers; otherwise `wait_ready()` is the caller's.

        Raises:
            K2KError: It does not start; the message ends with its own last log lines.
        """
        if self.is_running():
            return
        self._launch()
        if wait:
            self.wait_ready()

    def _launch(self) -> None:
        jars, java_program = fetch_jars(self._manifest), find_java()
        flags = flags_with(archive_of(jars, java_program)) if self._flags is None else self._flags
        java = [str(java_program), *flags, *java_flags(self._benchmark), "-cp", f"{jars}/*"]
        properties = self._write_properties()
        data = self.directory / "data"
        if not is_formatted(data):
            node = self._settings.get("node.id", "1")
            format_data(data, self.cluster_id, jars, lambda: self._format(java, properties), node)
        self.spawn([*java, "kafka.Kafka", str(properties)])

    def wait_ready(self, timeout: float = _READY_SECONDS) -> None:
        """Returns when the broker answers requests.

        Seconds lie between the choice of ports and a broker that listens there. One that somebody else took meanwhile
        is replaced once, unless the broker has answered before: clients know it by its address.

        Args:
            timeout: Seconds.

        Raises:
            K2KError: It ended or did not answer in time; the message ends with its own last log lines.
        """
        answers = self._answers_within(timeout)
        if not answers and not self._has_answered and not self._identity.is_usable():
            self._identity = load_identity(self.directory)
            self.what = self._name()
            self._launch()
            answers = self._answers_within(timeout)
        if not answers:
            raise self.failure("ended while it started")
        self._has_answered = True

    def _answers_within(self, timeout: float) -> bool:
        """Waits until the broker answers; false when it has ended."""
        deadline = Deadline(timeout)
        quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50, "log_level": 0}
        client = AdminClient({**self.admin_properties, **quick})
        while not _answers(client, self.cluster_id):
            if not self.is_running():
                return False
            if deadline.expired():
                self.kill()
                raise self.failure(f"did not answer within {timeout:g} s")
        return True

    def restart(self, kill: bool = False) -> None:
        """Down and up again on the same port and data.

        Args:
            kill: By SIGKILL; the broker then takes some two seconds longer to come back.
        """
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    def _write_properties(self) -> Path:
        settings = self._settings
        if self._security is not None:
            settings = {**self._security.settings(self._identity), **settings}
        if not self._benchmark:
            settings = {**SMALL, **settings}
        path = self.directory / "server.properties"
        path.write_text(server_properties(self.directory / "data", self._identity, settings))
        return path

    def _format(self, java: list[str], properties: Path) -> None:
        command = [*java, "kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(properties)]
        with self.log_file.open("ab") as log:
            done = subprocess.run(command, stdout=log, stderr=log, timeout=_FORMAT_SECONDS, check=False)
        if done.returncode != 0:
            raise self.failure("could not be given a data directory")

    def _name(self) -> str:
        return f"The {self.role} broker ({self.servers}, {self.directory})"


def _answers(client: AdminClient, cluster_id: str) -> bool:
    """Whether this very cluster does: another one may have taken the port."""
    try:
        found = client.list_topics(timeout=0.5)
    except KafkaException:
        return False
    return bool(found.brokers) and found.cluster_id == cluster_id
