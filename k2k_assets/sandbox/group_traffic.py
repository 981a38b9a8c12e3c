"""Consumer groups that read the sample traffic on the source and commit, as applications do, until they are stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException

from k2k_assets.core.deadline import Deadline

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_LINGER_SECONDS = 10.0


class SampleGroup(NamedTuple):
    """A group, and what it does.

    Attributes:
        name: Its name.
        topic: What it reads.
        commit_seconds: Between its commits: while the traffic goes on it is behind by so much.
    """

    name: str
    topic: str
    commit_seconds: float


SAMPLE_GROUPS = (
    SampleGroup("demo-shipping", "demo.orders", 2.0),
    SampleGroup("demo-mailing", "demo.customers", 15.0),
)


@contextmanager
def following_groups(servers: str, timeout: float = 60.0) -> Iterator[None]:
    """Keeps the sample groups reading; when the body begins each of them has committed.

    Args:
        servers: Bootstrap address of the cluster; the topics exist, with records in them.
        timeout: Seconds for the first commits; the body begins without them then.
    """
    stop = threading.Event()
    begun = [threading.Event() for _ in SAMPLE_GROUPS]
    threads = [
        threading.Thread(target=_follow, args=(servers, group, stop, first), name=group.name, daemon=True)
        for group, first in zip(SAMPLE_GROUPS, begun, strict=True)
    ]
    try:
        deadline = Deadline(timeout)
        for thread in threads:
            thread.start()
        for first in begun:
            first.wait(deadline.remaining())
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(_LINGER_SECONDS)


def _follow(servers: str, group: SampleGroup, stop: threading.Event, begun: threading.Event) -> None:
    """Goes on after a broker was away."""
    while not stop.is_set():
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group.name,
                "group.protocol": "classic",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.ms": 10,
                "log_level": 0,
            }
        )
        try:
            consumer.subscribe([group.topic])
            _read(consumer, group, stop, begun)
        except KafkaException as error:
            _log.warning("sample group %s on %s is interrupted: %s", group.name, servers, error)
            stop.wait(1.0)
        finally:
            consumer.close()


def _read(consumer: Consumer, group: SampleGroup, stop: threading.Event, begun: threading.Event) -> None:
    pause = Deadline(0)
    read = 0
    while not stop.is_set():
        read += sum(message.error() is None for message in consumer.consume(500, _POLL_SECONDS))
        if read and pause.expired():
            consumer.commit(asynchronous=False)
            begun.set()
            pause, read = Deadline(group.commit_seconds), 0
