"""A real schema registry with Confluent's API (Apicurio), as a child process that keeps its schemas in memory."""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Literal

from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.java.find import find_java
from k2k_assets.sandbox.broker_settings import free_ports
from k2k_assets.sandbox.jars import fetch_jars
from k2k_assets.sandbox.supervised import SupervisedProcess

APICURIO = Path(__file__).with_name("apicurio-2.6.13.jars")
_API = "/apis/ccompat/v7"
_READY_SECONDS = 180.0
_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class SandboxRegistry(SupervisedProcess):
    """A schema registry.

    Args:
        role: Whose: how messages name it.
        directory: Where its log is; it is made when it is missing.
        first_id: Its ids are higher by so many than those of a registry that begins with 1.
        temporary: The directory goes when the process that started the registry is gone.
    """

    def __init__(
        self, role: Literal["source", "target"], directory: Path, *, first_id: int = 1, temporary: bool = False
    ) -> None:
        self._port = free_ports(1)[0]
        self._first_id = first_id
        self._directory = directory
        super().__init__(
            f"The {role}'s schema registry ({self.url})", directory / "registry.log", directory if temporary else None
        )

    @property
    def url(self) -> str:
        """Where its API is."""
        return f"http://127.0.0.1:{self._port}{_API}"

    def start(self) -> None:
        """Starts it and returns when it answers; downloads it first if need be. It begins empty.

        Raises:
            K2KError: It does not start; the message ends with its own last log lines.
        """
        if self.is_running():
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        program = _program()
        self.spawn(
            [
                str(find_java()),
                *_FLAGS,
                f"-Dquarkus.http.port={self._port}",
                "-Dquarkus.http.host=127.0.0.1",
                "-Dquarkus.log.level=WARN",
                "-jar",
                str(program),
            ]
        )
        deadline = Deadline(_READY_SECONDS)
        wait_until(lambda: not self.is_running() or self._answers(), deadline.remaining(), "the registry to answer")
        if not self.is_running():
            raise self.failure("ended while it started")
        for number in range(1, self._first_id):
            self._register_filler(number)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=1.0) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _register_filler(self, number: int) -> None:
        """A schema that nobody asks for, so that the ids of two registries differ."""
        schema = {"schema": json.dumps({"type": "fixed", "name": f"filler{number}", "size": number})}
        request = urllib.request.Request(
            f"{self.url}/subjects/filler-{number}/versions",
            json.dumps(schema).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=60.0):
            pass


def _program() -> Path:
    """The registry's jar, unpacked beside the archive."""
    archive = next(fetch_jars(APICURIO).iterdir())
    unpacked = archive.parent.with_name(f"{archive.parent.name}-unpacked")
    if not unpacked.exists():
        staging = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=archive.parent.parent))
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(staging, filter="data")
            try:
                staging.rename(unpacked)
            except OSError:  # somebody else was quicker
                if not unpacked.exists():
                    raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return next(unpacked.rglob("*-runner.jar"))
