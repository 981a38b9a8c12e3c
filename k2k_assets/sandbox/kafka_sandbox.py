"""Two real Kafka clusters on this machine, for the demo, for tests and for development."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType

from k2k_assets.core.errors import K2KError
from k2k_assets.java.find import find_java
from k2k_assets.kafka import clients
from k2k_assets.sandbox.broker import Broker
from k2k_assets.sandbox.jars import fetch_jars, kafka_manifest
from k2k_assets.sandbox.principals import REPLICATOR, set_up_replicator
from k2k_assets.sandbox.registry import SandboxRegistry

# Of the target's registry: so that an id that was not mapped is noticed.
_FIRST_ID = 21


class KafkaSandbox:
    """A source and a target cluster of one broker each, as child processes.

    They end with this process, also when it is killed. Used as a context manager, or with `start()` and
    `stop()`; both may be called again after a `stop()`.

    Args:
        directory: Where data stays, and is found again by the next start (same cluster ids, and the same
            ports while they are free). Without one everything is temporary.
        settings: More lines for both brokers' `server.properties`.
        benchmark: Larger heaps and the full just-in-time compiler, as in production.
        secure: Clients of both clusters need a password or a certificate, and ACLs; there is a user for the
            pipeline, who may only read on the source.
        registries: A schema registry beside each cluster; they keep schemas in memory, and their ids differ.
        version: Of Kafka; see `kafka_manifest`.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        benchmark: bool = False,
        secure: bool = False,
        registries: bool = False,
        version: str | None = None,
    ) -> None:
        self._version = version
        self._with_registries = registries
        self.registries: tuple[SandboxRegistry, SandboxRegistry] | None = None
        self._given_directory = directory
        self._settings = dict(settings or {})
        self._benchmark = benchmark
        self.secure = secure
        self._lock: TextIOWrapper | None = None
        self._brokers: dict[str, Broker] = {}
        self._directory: Path | None = None

    @property
    def source(self) -> Broker:
        """The cluster that is copied from."""
        return self._broker("source")

    @property
    def target(self) -> Broker:
        """The cluster that is copied to."""
        return self._broker("target")

    @property
    def source_servers(self) -> str:
        """The source's bootstrap address."""
        return self.source.servers

    @property
    def target_servers(self) -> str:
        """The target's bootstrap address."""
        return self.target.servers

    def start(self) -> KafkaSandbox:
        """Starts both brokers, and registries, and returns when all answer; downloads them first if need be.

        Raises:
            K2KError: No usable Java, no such version, no download, the directory is in use, or a broker does not start.
        """
        find_java()
        fetch_jars(kafka_manifest(self._version))
        try:
            self._prepare_directory()
            registries = [registry.start for registry in self.registries or ()]
            _in_parallel([*(partial(self._start, broker) for broker in self._brokers.values()), *registries])
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops both brokers and removes temporary data; does nothing when they are stopped already."""
        temporary = self._given_directory is None
        registries = [registry.kill for registry in self.registries or ()]
        _in_parallel([*(b.kill if temporary else b.stop for b in self._brokers.values()), *registries])
        self.registries = None
        if temporary and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._brokers = {}
        self._directory = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> KafkaSandbox:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _broker(self, role: str) -> Broker:
        if role not in self._brokers:
            raise K2KError("The sandbox is not started.")
        return self._brokers[role]

    def _start(self, broker: Broker) -> None:
        broker.start()
        if self.secure:
            password = broker.security.password_file(REPLICATOR).read_text()
            set_up_replicator(broker.role, clients.admin(broker.admin_properties), password)

    def _prepare_directory(self) -> None:
        if self._given_directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="k2k-sandbox-"))
        else:
            self._directory = self._given_directory.resolve()
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self._directory)
        for role in ("source", "target"):
            self._brokers[role] = Broker(
                role,
                self._directory / role,
                temporary=self._given_directory is None,
                settings=self._settings,
                benchmark=self._benchmark,
                secure=self.secure,
                version=self._version,
            )
        if self._with_registries:
            source, target = (self._directory / f"{role}-registry" for role in ("source", "target"))
            self.registries = (
                SandboxRegistry("source", source, temporary=self._given_directory is None),
                SandboxRegistry("target", target, first_id=_FIRST_ID, temporary=self._given_directory is None),
            )


def _lock(directory: Path) -> TextIOWrapper:
    file = (directory / "lock").open("a")
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise K2KError(f"Another sandbox runs in {directory}: stop it, or choose another directory.") from None
    return file


def _in_parallel(actions: list[Callable[[], None]]) -> None:
    """Runs all to their end, then raises the first error."""
    with ThreadPoolExecutor(max_workers=max(1, len(actions))) as pool:
        futures = [pool.submit(action) for action in actions]
    for future in futures:
        future.result()
