"""`dagster dev` beside traffic on the sandbox's brokers: a pipeline, groups, and what becomes visible on the target."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Self

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.lab import Lab, create_topic
from k2k_assets import orchestration
from k2k_assets.definitions import FOLDER_VARIABLE
from k2k_assets.discovery import refresh
from k2k_assets.orchestration.sensors.replication_sensor import SENSORS_VARIABLE
from k2k_assets.pipeline import load_pipeline

NAME = "busy"
TOPICS = ("busy.orders", "busy.payments", "busy.customers")
PARTITIONS = 4
GROUPS = {"busy-billing": TOPICS[0], "busy-mailing": TOPICS[1]}
RATE = 50.0
MODULE = "k2k_assets.definitions"
_END_SECONDS = 20.0
_MINUTE = 60.0


def prepared(lab: Lab, window: float, **sync: object) -> Path:
    """Topics, a pipeline file, what is discovered, and a home of Dagster, which is returned.

    Args:
        lab: Where the clusters are.
        window: Minutes of a run of the sync job.
        sync: More keys of the file's section `sync`.
    """
    for topic in TOPICS:
        create_topic(lab.source, topic, PARTITIONS)
    (lab.folder / "pipelines").mkdir()
    path = lab.folder / "pipelines" / "busy.yaml"
    on = "enabled"
    document = {
        "name": NAME,
        "features": {"exactlyOnce": on, "offsetMapping": on, "autoCreateTopics": on, "autoCreateControlTopics": on},
        "source": {
            "kafka": {
                "common": {"bootstrap.servers": lab.sandbox.source_servers},
                "consumer": {"group.id": "k2k.busy"},
            }
        },
        "target": {"kafka": {"common": {"bootstrap.servers": lab.sandbox.target_servers}}},
        "replication": [{"source": {"topic": "busy[.].*"}}, {"sink": {"topic": "source", "partition": "source"}}],
        "groups": {"consumerGroups": "busy-.*"},
        "sync": {"window": f"{window * _MINUTE:.0f} seconds", **sync},
    }
    path.write_text(json.dumps(document))
    os.environ["K2K_HOME"] = str(lab.folder / "home")
    refresh(load_pipeline([path]), lab.source, lab.target)
    home = lab.folder / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text((Path(orchestration.__file__).parent / "dagster.yaml").read_text())
    return home


@contextmanager
def traffic(lab: Lab) -> Iterator[None]:
    """Records at a steady rate, and groups that read them and commit each second."""
    stop = threading.Event()
    servers = lab.sandbox.source_servers
    threads = [threading.Thread(target=_produce, args=(servers, stop))]
    threads += [threading.Thread(target=_consume, args=(servers, group, stop)) for group in GROUPS]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _produce(servers: str, stop: threading.Event) -> None:
    producer, number = Producer({"bootstrap.servers": servers}), 0
    while not stop.wait(1 / RATE):
        producer.produce(TOPICS[number % len(TOPICS)], b"%d" % number * 10, partition=number // 3 % PARTITIONS)
        producer.poll(0)
        number += 1
    producer.flush(_END_SECONDS)


def _consume(servers: str, group: str, stop: threading.Event) -> None:
    settings = {"bootstrap.servers": servers, "group.id": group, "auto.commit.interval.ms": 1000}
    with closing(Consumer({**settings, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([GROUPS[group]])
        while not stop.is_set():
            consumer.poll(0.5)


@contextmanager
def dagster_dev(lab: Lab, home: Path, port: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `dagster dev` with its sensors on; it leads a process group, which is killed at the end.

    Args:
        lab: Where the pipeline file is.
        home: Dagster's home.
        port: Of the web server; 0: any.
    """
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        FOLDER_VARIABLE: str(lab.folder / "pipelines"),
        SENSORS_VARIABLE: "running",
    }
    command = [*(sys.executable, "-m", "dagster", "dev", "-m", MODULE), "-h", "127.0.0.1", "-p", str(port)]
    with (lab.folder / "dagster-dev.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        yield process
        if process.poll() not in (None, -signal.SIGKILL):
            raise RuntimeError(f"dagster dev ended by itself:\n{(lab.folder / 'dagster-dev.log').read_text()[-4000:]}")
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Arrivals:
    """Reads what is visible on the target, and notes how long after its timestamp that is.

    Args:
        lab: Where the clusters are.

    Attributes:
        waits: When each record was read, seconds since the epoch, and how old it was then, milliseconds.
    """

    def __init__(self, lab: Lab) -> None:
        self.waits: list[tuple[float, float]] = []
        settings = {"group.id": "bench-arrivals", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer({"bootstrap.servers": lab.sandbox.target_servers, **settings})
        partitions = product(TOPICS, range(PARTITIONS))
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_END) for topic, partition in partitions])
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._end.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                now = time.time()
                self.waits.append((now, 1000 * now - message.timestamp()[1]))
