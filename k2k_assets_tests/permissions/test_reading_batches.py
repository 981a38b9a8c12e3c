"""Batches are read over TLS with a password and with certificates, by somebody who may only read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reasons.permissions import SourceReadDenied
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets.sandbox.principals import set_password
from k2k_assets.transport.errors import SourceStopped
from k2k_assets.transport.factory import BATCHES, SOURCES
from k2k_assets.transport.interface import Position
from k2k_assets_tests.support.brokers import kafka, secure
from k2k_assets_tests.support.brokers.secure import mtls, pem_texts, scram, secure_pipeline

pytestmark = pytest.mark.integration

Way = Callable[[Broker], dict[str, str]]


@pytest.fixture
def topic(secure_clusters: KafkaSandbox) -> TopicPartition:
    """A partition with 300 records."""
    servers = secure_clusters.source.mtls_servers
    name = kafka.create_topic(servers, kafka.unique("secured"))
    kafka.produce(servers, name, [b"%d" % n for n in range(300)], 0)
    return TopicPartition(name, 0)


@pytest.mark.parametrize("way", [scram, mtls, pem_texts], ids=["password", "certificate", "texts"])
def test_they_are_read(secure_clusters: KafkaSandbox, topic: TopicPartition, tmp_path: Path, way: Way) -> None:
    source, target = secure_clusters.source, secure_clusters.target
    reader = SOURCES[BATCHES](secure_pipeline(tmp_path, way(source), way(target), [topic.topic]))
    reader.assign({topic: Position(0)})
    values: list[bytes | None] = []
    deadline = Deadline(kafka.SECONDS)
    while len(values) < 300 and not deadline.expired():
        values += [value for chunk in reader.poll(1000, 0.1).chunks for value in chunk.columns().values()]
    reader.close()
    assert values == [b"%d" % n for n in range(300)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sasl.password": "wrong-4711"}, "refuses the login"),
        ({"ssl.ca.location": "probe"}, "cannot be talked to over TLS"),
    ],
)
def test_who_is_not_let_in_is_told_why(
    secure_clusters: KafkaSandbox, topic: TopicPartition, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    source, target = secure_clusters.source, secure_clusters.target
    way = {**scram(source), **change}
    reader = SOURCES[BATCHES](secure_pipeline(tmp_path, way, scram(target), [topic.topic]))
    with pytest.raises(ClusterUnreachable, match=words) as refused:
        reader.assign({topic: Position(0)})
    reader.close()
    assert "wrong-4711" not in str(refused.value)


def test_a_topic_that_may_not_be_read_stops(
    secure_clusters: KafkaSandbox, topic: TopicPartition, tmp_path: Path
) -> None:
    source, target = secure_clusters.source, secure_clusters.target
    user = "nobody-special"
    password = source.security.password_file(user).read_text()
    set_password(secure.admin(source), user, password)
    reader = SOURCES[BATCHES](secure_pipeline(tmp_path, scram(source, user), scram(target), [topic.topic]))
    reader.assign({topic: Position(0)})

    def stopped() -> SourceStopped | None:
        try:
            reader.poll(100, 0.1)
        except SourceStopped as stop:
            return stop
        return None

    stop = wait_until(stopped, kafka.SECONDS, "the stop")
    reader.close()
    assert stop is not None
    assert isinstance(stop.reason, SourceReadDenied)
