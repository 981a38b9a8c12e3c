"""Settings of a source that reads batches, from librdkafka's property names.

Every name that may change what is read, or from whom, is either understood here, or a reason to leave the reading to
librdkafka. Names are never skipped because nobody thought of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from k2k_assets.pipeline.clients.librdkafka_names import NAMES
from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.transport.record_batch.wire.fetch_messages import FetchLimits
from k2k_assets.transport.record_batch.wire.mechanisms import Mechanism, mechanism_of
from k2k_assets.transport.record_batch.wire.tls import TLS_NAMES, TlsSettings, tls_of
from k2k_assets.transport.record_batch.wire.traffic import Traffic

T = TypeVar("T")

Address = tuple[str, int]

_KAFKA_PORT = 9092
_MIB = 1024 * 1024
_FRAME_MARGIN = 64 * 1024
"""Bytes of an answer beside its records."""

_SERVERS = ("bootstrap.servers", "metadata.broker.list")
_MECHANISM = ("sasl.mechanisms", "sasl.mechanism")
_OF_PARTITION = ("fetch.message.max.bytes", "max.partition.fetch.bytes")
_SASL_NAMES = {
    *_MECHANISM, "sasl.username", "sasl.password", "enable.sasl.oauthbearer.unsecure.jwt", "sasl.oauthbearer.config",
    "sasl.oauthbearer.method",
}  # fmt: skip
_UNDERSTOOD = {
    *_SERVERS, *_OF_PARTITION, *_SASL_NAMES, *TLS_NAMES, "security.protocol", "client.id", "socket.timeout.ms",
    "socket.connection.setup.timeout.ms", "receive.message.max.bytes", "fetch.wait.max.ms", "fetch.min.bytes",
    "fetch.max.bytes", "queued.max.messages.kbytes", "isolation.level", "socket.keepalive.enable",
    "reconnect.backoff.ms", "reconnect.backoff.max.ms",
}  # fmt: skip
# They change neither which records come nor from which broker: timing and queues of librdkafka, groups (none is
# joined), its own reports. CRCs are always checked, and small answers are never held back by Nagle's algorithm.
_WITHOUT_EFFECT = {
    name
    for name in NAMES
    if name.startswith(("group.", "auto.", "enable.auto.", "offset.store.", "log", "topic.metadata.", "coordinator."))
} | {
    "allow.auto.create.topics", "api.version.fallback.ms", "api.version.request", "api.version.request.timeout.ms",
    "broker.address.ttl", "broker.version.fallback", "check.crcs", "client.software.name", "client.software.version",
    "connections.max.idle.ms", "consume.callback.max.messages", "debug", "enable.metrics.push", "enable.partition.eof",
    "enable.random.seed", "enable.sparse.connections", "fetch.error.backoff.ms", "fetch.queue.backoff.ms",
    "heartbeat.interval.ms", "max.in.flight", "max.in.flight.requests.per.connection", "max.poll.interval.ms",
    "message.copy.max.bytes", "message.max.bytes", "metadata.max.age.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy", "metadata.request.timeout.ms", "partition.assignment.strategy",
    "queued.min.messages", "reconnect.backoff.jitter.ms", "retry.backoff.max.ms", "retry.backoff.ms",
    "session.timeout.ms", "socket.blocking.max.ms", "socket.max.fails", "socket.nagle.disable",
    "statistics.interval.ms",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How brokers are connected to.

    Attributes:
        servers: Bootstrap addresses.
        tls: None for plain connections.
        mechanism: How it signs in; None if it does not.
        client_id: What brokers call this client.
        answer_seconds: Longest wait for an answer, beyond the time for which the broker may hold it back.
        setup_seconds: Longest time from a connection's begin until it is signed in.
        backoff: Pause before the second attempt to connect, and the longest pause, in seconds.
        keep_alive: Whether idle connections are probed.
        traffic: Counts what goes over these connections.
        silent: Brokers that could not be reached the last time. They are asked last.
    """

    servers: tuple[Address, ...]
    tls: TlsSettings | None
    mechanism: Mechanism | None
    client_id: str
    answer_seconds: float
    setup_seconds: float
    backoff: tuple[float, float]
    keep_alive: bool
    traffic: Traffic = field(default_factory=Traffic, compare=False)
    silent: set[Address] = field(default_factory=set, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings(ConnectionSettings):
    """Settings of a source that reads batches.

    Attributes:
        limits: How much is asked for.
        queued: So many bytes are fetched ahead.
        largest_answer: A longer answer is refused, in bytes.
    """

    limits: FetchLimits
    queued: int
    largest_answer: int


def settings_of(properties: Mapping[str, object], buffer_bytes: int | None = None) -> SourceSettings:
    """The settings.

    Args:
        properties: Consumer settings, librdkafka names.
        buffer_bytes: About how many bytes are fetched ahead; None: what the properties say.

    Raises:
        NotByBatches: librdkafka has to read, with all reasons.
    """
    given = {name: str(value) for name, value in properties.items()}
    reasons = [
        f"the property {name} is not understood by it"
        for name in sorted(given)
        if name not in _UNDERSTOOD and name not in _WITHOUT_EFFECT
    ]
    if given.get("isolation.level", "read_committed") != "read_committed":
        reasons.append("isolation.level is read_uncommitted")
    protocol = given.get("security.protocol", "plaintext").lower()
    if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        reasons.append(f"security.protocol is {protocol}")

    def collected(make: Callable[[], T], instead: T) -> T:
        try:
            return make()
        except NotByBatches as found:
            reasons.extend(found.reasons)
            return instead

    tls = collected(lambda: tls_of(given), None) if protocol.endswith("ssl") else None
    mechanism = collected(lambda: mechanism_of(given), None) if protocol.startswith("sasl") else None
    nowhere: tuple[Address, ...] = ()
    servers = collected(lambda: _addresses(next((given[name] for name in _SERVERS if name in given), "")), nowhere)
    numbers = collected(lambda: _Numbers.of(given, buffer_bytes), _Numbers())
    if reasons:
        raise NotByBatches(reasons)
    return SourceSettings(
        servers=servers,
        tls=tls,
        mechanism=mechanism,
        client_id=given.get("client.id", "k2k-assets"),
        limits=FetchLimits(numbers.wait_ms, numbers.least, numbers.most, numbers.of_partition),
        queued=numbers.queued,
        largest_answer=max(numbers.largest_answer, numbers.most + _FRAME_MARGIN),
        answer_seconds=numbers.answer_ms / 1000,
        setup_seconds=numbers.setup_ms / 1000,
        backoff=(numbers.backoff_ms / 1000, max(numbers.backoff_ms, numbers.longest_backoff_ms) / 1000),
        keep_alive=given.get("socket.keepalive.enable", "false").lower() == "true",
    )


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers among the settings, with the defaults of the copy's other transport, or librdkafka's."""

    wait_ms: int = 500
    least: int = 1
    most: int = 16 * _MIB
    of_partition: int = _MIB
    queued: int = 32 * _MIB
    largest_answer: int = 100_000_000
    answer_ms: int = 60_000
    setup_ms: int = 30_000
    backoff_ms: int = 10
    longest_backoff_ms: int = 1000

    @classmethod
    def of(cls, given: Mapping[str, str], buffer_bytes: int | None) -> _Numbers:
        """From the properties; what is fetched ahead is at most `buffer_bytes`."""

        def number(default: int, *names: str) -> int:
            for name in names:
                if name in given:
                    try:
                        return int(given[name])
                    except ValueError:
                        raise NotByBatches([f"{name} is no number"]) from None
            return default

        plain = cls()
        most = number(plain.most, "fetch.max.bytes")
        queued = number(plain.queued // 1024, "queued.max.messages.kbytes") * 1024
        of_partition = number(plain.of_partition, *_OF_PARTITION)
        if buffer_bytes is not None:
            ahead = max(1024, buffer_bytes // 2)  # one answer comes while the other is read
            most, of_partition, queued = min(most, ahead), min(of_partition, ahead), min(queued, buffer_bytes)
        return cls(
            number(plain.wait_ms, "fetch.wait.max.ms"),
            number(plain.least, "fetch.min.bytes"),
            most,
            of_partition,
            queued,
            number(plain.largest_answer, "receive.message.max.bytes"),
            number(plain.answer_ms, "socket.timeout.ms"),
            number(plain.setup_ms, "socket.connection.setup.timeout.ms"),
            number(plain.backoff_ms, "reconnect.backoff.ms"),
            number(plain.longest_backoff_ms, "reconnect.backoff.max.ms"),
        )


def _addresses(servers: str) -> tuple[Address, ...]:
    """Hosts and ports; `host`, `host:port`, `[v6]:port`, or with a protocol before it, as librdkafka takes them."""
    found = []
    for each in filter(None, (part.strip() for part in servers.split(","))):
        host, port = each.rpartition("://")[2], str(_KAFKA_PORT)
        if ":" in host and not host.endswith("]") and (host.count(":") == 1 or host.startswith("[")):
            host, _, port = host.rpartition(":")
        if not port.isdecimal():
            raise NotByBatches([f"bootstrap.servers has no port in {each}"])
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise NotByBatches(["bootstrap.servers is missing"])
    return tuple(found)
