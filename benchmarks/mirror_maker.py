"""One MirrorMaker 2 in its dedicated mode, as a child process that ends with this one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.held_process import HeldProcess
from benchmarks.lab import Lab
from k2k_assets.java.find import find_java
from k2k_assets.sandbox.jars import fetch_jars

JARS = Path(__file__).with_name("mirror-maker-4.3.1.jars")
HEAP = ("-Xms2g", "-Xmx2g", "-XX:+UseG1GC")

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
_INTERVAL = {"{flow}.transaction.boundary": "interval", "{flow}.transaction.boundary.interval.ms": "1000"}

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
        settings: What makes it so; `{flow}` stands for the flow's name.
    """

    title: str
    alias: str
    settings: tuple[tuple[str, str], ...] = ()

    def compressing(self, codec: str) -> Mode:
        """The same for a process that compresses: with an alias of its own, so that it begins anew."""
        return self if codec == "none" else replace(self, alias=f"{self.alias}-{codec}")


MODES = (
    Mode("exactly once (poll)", "poll", tuple(_EXACTLY_ONCE.items())),
    Mode("at least once", "least"),
    Mode("exactly once (interval 1 s)", "interval", tuple({**_EXACTLY_ONCE, **_INTERVAL}.items())),
)


class MirrorMaker(HeldProcess):
    """A process; used as a context manager.

    Args:
        lab: Where the clusters are.
        name: Of its files; one that no other had.
        mode: How it delivers.
        topics: Source topics.
        tuning: More settings.
    """

    def __init__(self, lab: Lab, name: str, mode: Mode, topics: Sequence[str], tuning: dict[str, object]) -> None:
        super().__init__("MirrorMaker 2", "JVM", f"{mode.alias}.", lab.folder / f"{name}.log")
        self._properties = lab.folder / f"{name}.properties"
        self._properties.write_text(_text(_settings(lab, mode, topics, tuning)))

    def _command(self) -> list[str]:
        java = [str(find_java()), *HEAP, *_LOGGING, "-cp", f"{fetch_jars(JARS)}/*"]
        return [*java, "org.apache.kafka.connect.mirror.MirrorMaker", str(self._properties)]

    def settings_in_force(self) -> str:
        """What its own log says of the settings that are meant to matter, as words."""
        log = self.said()
        names = (
            "max.poll.records",
            "max.partition.fetch.bytes",
            "batch.size",
            "linger.ms",
            "compression.type",
            "transactional.id",
            "transaction.boundary",
        )
        values = {name: sorted(set(re.findall(rf"^\s+{re.escape(name)} = (.+)$", log, re.M))) for name in names}
        return "; ".join(f"`{name}`: {', '.join(found)}" for name, found in values.items())


def tuned(codec: str) -> dict[str, object]:
    """The settings for throughput, with a compression."""
    return {**TUNED, "target.producer.compression.type": codec}


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
        **{name.format(flow=flow): value for name, value in mode.settings},
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
        "MirrorMaker 2 on lz4 loads: a process of its own with compression.type=lz4",
        "Latency: the same with linger.ms=0 and nothing else tuned",
    ]
