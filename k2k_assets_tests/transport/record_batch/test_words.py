"""What users read when a cluster cannot be entered: which, where, what is wrong, what to do; nothing secret."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from k2k_assets.core.errors import ClusterUnreachable, K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.reading import source
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets.transport.record_batch.writing.at_least_once_sink import AtLeastOnceBatchSink
from k2k_assets.transport.record_batch.writing.batch_sink import BatchSink
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets_tests.support.brokers.listening_broker import ListeningBroker
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.copying import NAME, TOPICS
from k2k_assets_tests.support.model_broker.logins import ModelLogins
from k2k_assets_tests.support.model_broker.server import ModelBroker

SECONDS = 1.0
WRONG = {
    "a wrong password": {"sasl.password": "hidden"},
    "another mechanism": {"sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "hidden"},
}
SAID = {
    "a wrong password": "Authentication failed: Invalid username or password",
    "another mechanism": "it takes PLAIN, not SCRAM-SHA-512",
}
TP = TopicPartition("records", 0)
Properties = dict[str, str]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_METADATA_SECONDS", SECONDS)


@pytest.fixture
def logins() -> ModelLogins:
    return ModelLogins()


@pytest.fixture
def broker(logins: ModelLogins) -> Iterator[ModelBroker]:
    with ModelBroker(ModelCluster(TOPICS), logins=logins) as found:
        yield found


def _source(properties: Properties) -> None:
    found = BatchSource(properties)
    try:
        found.assign({TP: Position(0)})
    finally:
        found.close()


def _sink(properties: Properties) -> None:
    sink = BatchSink(sink_settings_of(properties, SECONDS), NAME, SlotTactics(True, 1_000_000), SECONDS)
    try:
        sink.open()
    finally:
        sink.close()


def _ids(properties: Properties) -> None:
    sink = AtLeastOnceBatchSink(sink_settings_of(properties, SECONDS), NAME, SlotTactics(True, 1_000_000), SECONDS)
    try:
        sink.raise_epochs({TP: None})
    finally:
        sink.close()


ROOMS: dict[str, tuple[str, Callable[[Properties], None]]] = {
    "source": ("source", _source),
    "sink": ("target", _sink),
    "producer ids": ("target", _ids),
}


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_refused_login(broker: ModelBroker, logins: ModelLogins, room: str, wrong: str) -> None:
    role, enter = ROOMS[room]
    with pytest.raises(ClusterUnreachable) as said:
        enter({"bootstrap.servers": broker.servers, **logins.properties(), **WRONG[wrong]})
    words = str(said.value)
    assert words.startswith(f"the {role} cluster at {broker.servers} refuses the login: {broker.servers}: SASL")
    assert SAID[wrong] in words
    assert f"Check the user name, the password and the mechanism (sasl.*) in {role}.kafka" in words
    assert "hidden" not in words


@pytest.mark.parametrize("room", ROOMS)
def test_tls_where_the_broker_speaks_none(room: str) -> None:
    role, enter = ROOMS[room]
    with Closing() as broker:
        servers = broker.servers
        with pytest.raises(ClusterUnreachable) as said:
            enter({"bootstrap.servers": servers, "security.protocol": "ssl"})
    words = str(said.value)
    assert words.startswith(f"the {role} cluster at {servers} cannot be talked to over TLS: {servers}: ")
    assert "If the brokers' port takes no TLS, 'security.protocol' is PLAINTEXT" in words


@pytest.mark.parametrize("room", ROOMS)
def test_no_tls_where_the_broker_expects_it(room: str) -> None:
    role, enter = ROOMS[room]
    with Closing() as broker:
        servers = broker.servers
        with pytest.raises((Restart, K2KError)) as said:
            enter({"bootstrap.servers": servers})
    assert role in str(said.value)
    assert f"{servers}: " in str(said.value)
    assert "does it expect TLS? security.protocol says that it does not" in str(said.value)


def test_a_login_that_is_refused_while_it_reads_is_logged_with_what_to_do(
    broker: ModelBroker, logins: ModelLogins, caplog: pytest.LogCaptureFixture
) -> None:
    """The model answers no fetch: it closes the connection then, and the next login is refused."""
    found = BatchSource({"bootstrap.servers": broker.servers, **logins.properties()})
    try:
        found.assign({TP: Position(0)})
        logins.password = "another"
        with caplog.at_level(logging.WARNING):
            found.poll(1, SECONDS)
    finally:
        found.close()
    said = next(text for text in caplog.messages if "SASL" in text)
    assert said.startswith(f"source: {broker.servers}: SASL authentication error: Authentication failed")
    assert "(it is connected to again). Check the user name, the password" in said


class Closing(ListeningBroker):
    """A broker that closes each connection with its first bytes, as Kafka does when they are of another protocol."""

    def __init__(self) -> None:
        super().__init__("closing")

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1)
