"""One MirrorMaker 2 in its dedicated mode, as a child process that ends with this one."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from benchmarks.lab import Lab
from k2k_assets.java.find import find_java
from k2k_assets.sandbox import supervisor
from k2k_assets.sandbox.jars import fetch_jars

JARS = Path(__file__).with_name("mirror-maker-4.3.1.jars")
HEAP = ("-Xms2g", "-Xmx2g", "-XX:+UseG1GC")

_GRACE_SECONDS = 20.0
_LOGGING = ("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info")

_ONE_NODE = {
    "replication.factor": 1,
    "checkpoints.topic.replication.factor": 1,
    "heartbeats.topic.replication.factor": 1,
    "offset-syncs.topic.replication.factor": 1,
    "offset.storage.replication.factor": 1,
    "status.storage.replication.factor": 1,
    "config.storage.replication.factor": 1,
}
_QUIET = {"emit.heartbeats.enabled": "false", "sync.topic.acls.enabled": "false"}
# The first is a setting of the target's workers: without the prefix it is silently without effect.
_EXACTLY_ONCE = {"target.exactly.once.source.support": "enabled", "dedicated.mode.enable.internal.rest": "true"}
# These are the connector's, and reach it by the flow's prefix only.
_INTERVAL = {
    "interval->target.transaction.boundary": "interval",
    "interval->target.transaction.boundary.interval.ms": "1000",
}

TUNED: dict[str, object] = {
    "source.consumer.max.poll.records": 5000,
    "source.consumer.fetch.max.bytes": 50 * 1024 * 1024,
    "source.consumer.max.partition.fetch.bytes": 4 * 1024 * 1024,
    "target.producer.batch.size": 320 * 1024,
    "target.producer.linger.ms": 20,
    "target.producer.buffer.memory": 64 * 1024 * 1024,
    "target.producer.max.request.size": 4 * 1024 * 1024,
    "target.producer.compression.type": "none",
    "target.offset.flush.timeout.ms": 10_000,
}
"""For throughput, as its users are advised to."""

QUICK: dict[str, object] = {"target.producer.linger.ms": 0, "target.producer.compression.type": "none"}
"""For latency."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How MirrorMaker 2 delivers.

    Attributes:
        title: As tables name it.
        alias: Its name for the source, so prefix of its topics: what one mode has copied is nothing to the next.
        settings: What makes it so.
    """

    title: str
    alias: str
    settings: tuple[tuple[str, str], ...] = ()


MODES = (
    Mode("exactly once (poll)", "poll", tuple(_EXACTLY_ONCE.items())),
    Mode("at least once", "least"),
    Mode("exactly once (interval 1 s)", "interval", tuple({**_EXACTLY_ONCE, **_INTERVAL}.items())),
)


class MirrorMaker:
    """A process; used as a context manager.

    Args:
        lab: Where the clusters are.
        name: Of its files; one that no other had.
        mode: How it delivers.
        topics: Source topics.
        tuning: More settings.
    """

    def __init__(self, lab: Lab, name: str, mode: Mode, topics: Sequence[str], tuning: dict[str, object]) -> None:
        self._log = lab.folder / f"{name}.log"
        self._properties = lab.folder / f"{name}.properties"
        self._properties.write_text(_text(_settings(lab, mode, topics, tuning)))
        self.pid = 0

    def __enter__(self) -> MirrorMaker:
        java = [str(find_java()), *HEAP, *_LOGGING, "-cp", f"{fetch_jars(JARS)}/*"]
        main = ["org.apache.kafka.connect.mirror.MirrorMaker", str(self._properties)]
        # The sandbox's supervisor ends it when this process ends, however that happens.
        guard = [sys.executable, "-I", "-S", str(supervisor.__file__), str(self._log), str(_GRACE_SECONDS), ""]
        self._process = subprocess.Popen(
            [*guard, *java, *main], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        self.pid = int(self._process.stdout.readline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resume()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_GRACE_SECONDS + 5)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait(_GRACE_SECONDS)

    def pause(self) -> None:
        """Freezes it (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def ensure_running(self) -> None:
        """Raises if the process has ended.

        Raises:
            RuntimeError: It has; the end of its log is in the message.
        """
        if self._process.poll() is not None:
            words = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"MirrorMaker 2 ended. Its last words:\n{words}")

    def settings_in_force(self) -> str:
        """What its own log says of the settings that are meant to matter, as words."""
        log = self._log.read_text(errors="replace")
        names = (
            "max.poll.records",
            "max.partition.fetch.bytes",
            "batch.size",
            "linger.ms",
            "transactional.id",
            "transaction.boundary",
        )
        values = {name: sorted(set(re.findall(rf"^\s+{re.escape(name)} = (.+)$", log, re.M))) for name in names}
        return "; ".join(f"`{name}`: {', '.join(found)}" for name, found in values.items())


def _settings(lab: Lab, mode: Mode, topics: Sequence[str], tuning: dict[str, object]) -> dict[str, object]:
    flow = f"{mode.alias}->target"
    renamed = {re.sub(r"^source\.", f"{mode.alias}.", name): value for name, value in tuning.items()}
    return {
        "clusters": f"{mode.alias}, target",
        f"{mode.alias}.bootstrap.servers": lab.sandbox.source_servers,
        "target.bootstrap.servers": lab.sandbox.target_servers,
        f"{flow}.enabled": "true",
        f"target->{mode.alias}.enabled": "false",
        f"{flow}.topics": ", ".join(topics),
        "tasks.max": 4,
        f"{mode.alias}.consumer.isolation.level": "read_committed",
        # It is frozen while a topic is filled, and stays in its group meanwhile.
        "target.session.timeout.ms": 120_000,
        **_ONE_NODE,
        **_QUIET,
        **dict(mode.settings),
        **renamed,
    }


def _text(settings: dict[str, object]) -> str:
    return "".join(f"{name} = {value}\n" for name, value in settings.items())


def shown() -> list[str]:
    """All settings that matter, as lines."""
    words = ", ".join(f"`{name}={value}`" for name, value in TUNED.items())
    return [
        f"MirrorMaker 2, dedicated mode, one node, {' '.join(HEAP)}, tasks.max=4, read_committed source, {words}; "
        "offset syncs and checkpoints on as by default (offset.lag.max=100), no heartbeats",
        "Latency: the same with linger.ms=0 and nothing else tuned",
    ]
