"""PLAIN and OAUTHBEARER on real brokers, in Java's words and in librdkafka's, and what is said to who is not let in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.cli.main import run
from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import Broker
from k2k_assets.sandbox.broker_settings import free_ports
from k2k_assets.transport.factory import BATCHES, SOURCES
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.tasks import Task
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, produce, unique
from k2k_assets_tests.support.brokers.secure import write_secure_pipeline
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    copy,
    copying_by,
)
from k2k_assets_tests.support.services.token_endpoint import AUDIENCE, ISSUER, TokenEndpoint

pytestmark = [pytest.mark.integration, pytest.mark.slow]

REAUTHENTICATE_MS = 2000
CLIENT, SECRET, PASSWORD = "k2k", 'cl;ent "secret"', "pl;in 'password'"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
URL = "sasl.oauthbearer.token.endpoint.url"
# Heap and collector are the sandbox's; it adds them.
_FLAGS = ("-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={keys}",
          "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{keys}")  # fmt: skip


class Doors:
    """A broker with an open door for tests, one that wants a name or a signed token, and one for unsigned tokens."""

    def __init__(self, role: Any, directory: Path, keys: Path) -> None:
        self.signed_port, self.unsigned_port = free_ports(2)
        self.broker = Broker(role, directory, temporary=True, flags=[flag.format(keys=keys) for flag in _FLAGS])
        identity = self.broker._identity
        ports = {"PLAINTEXT": identity.port, "CONTROLLER": identity.controller_port, "SIGNED": self.signed_port,
                 "UNSIGNED": self.unsigned_port}  # fmt: skip
        signed, unsigned = "listener.name.signed", "listener.name.unsigned"
        self.broker._settings |= {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "listener.security.protocol.map":
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SIGNED:SASL_PLAINTEXT,UNSIGNED:SASL_PLAINTEXT",
            f"{signed}.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            f"{signed}.plain.sasl.jaas.config": f"{PLAIN} user_{CLIENT}={_quoted(PASSWORD)};",
            f"{signed}.oauthbearer.sasl.jaas.config": f"{OAUTH};",
            f"{signed}.oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
            f"{signed}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
            f"{signed}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{signed}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
            f"{unsigned}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{unsigned}.oauthbearer.sasl.jaas.config": f"{OAUTH};",
            f"{unsigned}.oauthbearer.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
        }  # fmt: skip

    def signed(self, **properties: str) -> dict[str, str]:
        return {"bootstrap.servers": f"127.0.0.1:{self.signed_port}", "security.protocol": "SASL_PLAINTEXT",
                **properties}  # fmt: skip

    def unsigned(self, **properties: str) -> dict[str, str]:
        return {"bootstrap.servers": f"127.0.0.1:{self.unsigned_port}", "security.protocol": "SASL_PLAINTEXT",
                **properties}  # fmt: skip


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenEndpoint]:
    with TokenEndpoint({CLIENT: SECRET}, lifetime=60) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory, tokens: TokenEndpoint) -> Iterator[tuple[Doors, Doors]]:
    folder = tmp_path_factory.mktemp("doors")
    keys = tokens.write_keys(folder / "keys.json")
    pair = Doors("source", folder / "source", keys), Doors("target", folder / "target", keys)
    try:
        for each in pair:
            each.broker.start(wait=False)
        for each in pair:
            each.broker.wait_ready()
        yield pair
    finally:
        for each in pair:
            each.broker.kill()


def _topic(doors: tuple[Doors, Doors]) -> str:
    servers = doors[0].broker.servers
    name = create_topic(servers, unique("signed"), 2)
    for partition in range(2):
        produce(servers, name, [b"%d" % n for n in range(100)], partition)
    return name


def _assert_copied(doors: tuple[Doors, Doors], path: Path, topic: str) -> None:
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    servers = doors[0].broker.servers, doors[1].broker.servers
    assert assert_same_content(servers[0], topic, servers[1]) == 200
    assert_exact_mappings(pipeline, *servers, topic)


def _mechanism(name: str, **properties: str) -> dict[str, str]:
    return {"sasl.mechanism": name, **properties}


SIGNED_WAYS: dict[str, dict[str, str]] = {
    "PLAIN": _mechanism("PLAIN", **{"sasl.username": CLIENT, "sasl.password": PASSWORD}),
    "PLAIN, Java": _mechanism(
        "PLAIN", **{"sasl.jaas.config": f"{PLAIN} username={_quoted(CLIENT)} password={_quoted(PASSWORD)};"}
    ),
    "OAUTHBEARER": _mechanism(
        "OAUTHBEARER",
        **{"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": CLIENT,
           "sasl.oauthbearer.client.secret": SECRET},
    ),
    "OAUTHBEARER, Java": _mechanism(
        "OAUTHBEARER",
        **{"sasl.login.callback.handler.class": LOGIN,
           "sasl.jaas.config": f'{OAUTH} clientId="{CLIENT}" clientSecret={_quoted(SECRET)} scope="kafka";'},
    ),
    "OAUTHBEARER, Kafka 4.1": _mechanism(
        "OAUTHBEARER",
        **{"sasl.oauthbearer.client.credentials.client.id": CLIENT,
           "sasl.oauthbearer.client.credentials.client.secret": SECRET, "sasl.oauthbearer.scope": "kafka",
           "sasl.oauthbearer.jwt.retriever.class":
               "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "way",
    # In the others librdkafka fetches the tokens.
    [pytest.param(way, marks=() if way.startswith("PLAIN") else pytest.mark.librdkafka) for way in SIGNED_WAYS],
)
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_a_pipeline_comes_in(
    doors: tuple[Doors, Doors], tokens: TokenEndpoint, tmp_path: Path, way: str, mode: str
) -> None:
    """A copy signs in on both sides in each way, and no secret is shown."""
    topic = _topic(doors)
    properties = SIGNED_WAYS[way]
    if way.startswith("OAUTH"):
        properties = {**properties, URL: tokens.url}
    features = {"exactlyOnce": mode, "offsetMapping": "enabled"}
    source, target = (side.signed(**properties) for side in doors)
    path = write_secure_pipeline(tmp_path, source, target, [topic], features=features)
    asked = tokens.requests.get(CLIENT, 0)
    _assert_copied(doors, path, topic)
    assert (tokens.requests.get(CLIENT, 0) > asked) == way.startswith("OAUTH")
    assert SECRET not in repr(load_pipeline([path]))
    assert PASSWORD not in repr(load_pipeline([path]))


def test_tokens_without_a_signature(doors: tuple[Doors, Doors], tmp_path: Path) -> None:
    topic = _topic(doors)
    line = f'{OAUTH} unsecuredLoginStringClaim_sub="{CLIENT}" unsecuredLoginListClaim_scope="|kafka";'
    properties = _mechanism("OAUTHBEARER", **{"sasl.jaas.config": line})
    source, target = (side.unsigned(**properties) for side in doors)
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    _assert_copied(doors, write_secure_pipeline(tmp_path, source, target, [topic], features=features), topic)


@pytest.mark.parametrize("way", ["PLAIN", "token"])
def test_batches_are_read_for_longer_than_credentials_are_good(
    doors: tuple[Doors, Doors], tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    """A broker breaks connections whose credentials were not shown again; and that would be logged."""
    topic = _topic(doors)
    line = f'{OAUTH} unsecuredLoginStringClaim_sub="{CLIENT}";'
    token = _mechanism("OAUTHBEARER", **{"sasl.jaas.config": line})
    source = doors[0].signed(**SIGNED_WAYS["PLAIN"]) if way == "PLAIN" else doors[0].unsigned(**token)
    reader = SOURCES[BATCHES](load_pipeline([write_secure_pipeline(tmp_path, source, source, [topic])]))
    partition = TopicPartition(topic, 0)
    reader.assign({partition: Position(0)})
    values: list[bytes | None] = []
    deadline, at_last = Deadline(3 * REAUTHENTICATE_MS / 1000), Deadline(120)
    while len(values) < 100 or (way == "token" and not deadline.expired()):
        assert not at_last.expired(), f"{len(values)} records of 100"
        values += [value for chunk in reader.poll(1000, 0.1).chunks for value in chunk.columns().values()]
    produce(doors[0].broker.servers, topic, [b"late"], 0)
    (chunk,) = wait_until(lambda: reader.poll(1000, 0.1).chunks, SECONDS, "the late record")
    reader.close()
    assert [*values, *chunk.columns().values()] == [*(b"%d" % n for n in range(100)), b"late"]
    # The tokens are good for seconds: a busy machine may show one too late, and is connected again.
    assert way == "token" or not caplog.records


@pytest.mark.parametrize("way", ["PLAIN", "token"])
def test_batches_are_written_for_longer_than_credentials_are_good(
    doors: tuple[Doors, Doors], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """On the connections for records and on the coordinator's; what a busy machine shows too late costs a session."""
    topic = _topic(doors)
    line = f'{OAUTH} unsecuredLoginStringClaim_sub="{CLIENT}";'
    token = _mechanism("OAUTHBEARER", **{"sasl.jaas.config": line})
    source, target = (
        side.signed(**SIGNED_WAYS["PLAIN"]) if way == "PLAIN" else side.unsigned(**token) for side in doors
    )
    shown: list[BrokerConnection] = []
    sign_in = BrokerConnection._sign_in

    def noted(self: BrokerConnection, deadline: float) -> Task[None]:
        if self.address[1] == int(target["bootstrap.servers"].rsplit(":", 1)[1]):
            shown.append(self)
        return sign_in(self, deadline)

    monkeypatch.setattr(BrokerConnection, "_sign_in", noted)

    def signed_in_again() -> list[BrokerConnection]:
        return [connection for connection in set(shown) if shown.count(connection) > 1]

    def all_expired() -> bool:
        """All credentials at least once. What a busy machine shows too late is shown on another connection."""
        return deadline.expired() and (len(signed_in_again()) >= 2 or at_last.expired())

    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    pipeline = load_pipeline([write_secure_pipeline(tmp_path, source, target, [topic], features=features)])
    servers = doors[0].broker.servers, doors[1].broker.servers
    count, deadline, at_last = 200, Deadline(3 * REAUTHENTICATE_MS / 1000), Deadline(120)
    with copying_by(BATCHES):
        running = Running(pipeline, 1)
        while (way == "token" and not all_expired()) or count < 210:
            produce(servers[0], topic, [b"later"], 0)
            count += 1
            running.await_copied(count)
        running.end()
    assert len(signed_in_again()) >= 2 if way == "token" else not signed_in_again()
    assert assert_same_content(servers[0], topic, servers[1]) == count
    assert_exact_mappings(pipeline, *servers, topic)


@pytest.mark.parametrize(
    ("way", "change"),
    [
        ("PLAIN", {"sasl.password": "wrong-4711"}),
        ("OAUTHBEARER", {"sasl.oauthbearer.client.secret": "wrong-4711"}),
        ("OAUTHBEARER", {URL: "http://127.0.0.1:9/token"}),
    ],
    ids=["wrong password", "wrong secret", "no token endpoint"],
)
def test_who_is_not_let_in_is_told_within_seconds(
    doors: tuple[Doors, Doors],
    tokens: TokenEndpoint,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    way: str,
    change: dict[str, str],
) -> None:
    topic = _topic(doors)
    right = {**SIGNED_WAYS[way], **({URL: tokens.url} if way == "OAUTHBEARER" else {})}
    path = write_secure_pipeline(tmp_path, doors[0].signed(**right), doors[1].signed(**{**right, **change}), [topic])
    assert run(["validate", "--connect", "-f", str(path)]) == 3
    said = capsys.readouterr()
    assert "the target cluster at" in said.err
    assert "wrong-4711" not in said.out + said.err
    assert SECRET not in said.out + said.err
