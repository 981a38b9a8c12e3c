"""Java client property names (Kafka 4.x) that have another name, unit or meaning in librdkafka.

Names that are the same in both are only in `librdkafka_names`. TLS and SASL keys that depend on other keys are in
`security`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

Scalar = str | int | float | bool


@dataclass(frozen=True)
class Between:
    """A number within librdkafka's limits, which are narrower than Java's. A number outside becomes the limit."""

    least: int
    most: int

    def __call__(self, value: Scalar) -> Scalar:
        return max(self.least, min(self.most, whole(value)))

    def clips(self, value: Scalar) -> bool:
        """Whether a limit changes the value. -1 ("the default", "never") means the same as 0 or the lower limit."""
        return not self.least <= whole(value) <= self.most and whole(value) != -1


class Renamed(NamedTuple):
    """librdkafka's name, and how the value changes. `convert` raises ValueError; its text says what is expected."""

    to: str
    convert: Callable[[Scalar], Scalar] | None = None
    note: str = ""


class NoEffect(NamedTuple):
    """A property without effect: a warning names it, unless its value is `fine`, which is what happens anyway."""

    reason: str
    fine: str | None = None


class Impossible(NamedTuple):
    """A refused property: to ignore it would change who connects or what is written."""

    reason: str


Rule = Renamed | NoEffect | Impossible


def whole(value: Scalar) -> int:
    """A whole number, also one in quotes.

    Raises:
        ValueError: it is not a whole number.
    """
    try:
        number = int(value)
    except (ValueError, OverflowError):
        raise ValueError("a whole number") from None
    if isinstance(value, bool) or (isinstance(value, float) and value != number):
        raise ValueError("a whole number")
    return number


def _milliseconds(value: Scalar) -> Scalar:
    """librdkafka takes parts of a millisecond where Java does not."""
    try:
        number = float(value)
    except ValueError:
        number = -1
    if isinstance(value, bool) or not 0 <= number <= 900_000:
        raise ValueError("a number of milliseconds from 0 to 900000")
    return value


def _kilobytes(value: Scalar) -> Scalar:
    return max(1, min(2**31 - 1, -(-whole(value) // 1024)))


_PARTITIONERS = {
    "DefaultPartitioner": "murmur2_random",
    "UniformStickyPartitioner": "random",
    "RoundRobinPartitioner": "random",
}


def _partitioner(value: Scalar) -> Scalar:
    name = str(value).rpartition(".")[2]
    if name not in _PARTITIONERS:
        raise ValueError(f"one of Kafka's own partitioners ({', '.join(_PARTITIONERS)})")
    return _PARTITIONERS[name]


def _start(value: Scalar) -> Scalar:
    starts = {"earliest": "earliest", "latest": "latest", "none": "error"}
    aliases = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest", "error": "error"}
    start = {**starts, **aliases}.get(str(value))
    if start is None:
        raise ValueError("earliest, latest or none")
    return start


def _isolation(value: Scalar) -> Scalar:
    """The value in lower case, because librdkafka accepts any case."""
    level = str(value).strip().lower()
    if level not in ("read_committed", "read_uncommitted"):
        raise ValueError("read_committed or read_uncommitted")
    return level


def _openssl_providers(value: Scalar) -> Scalar:
    """Names of installed providers only: OpenSSL would load a path as code."""
    if not re.fullmatch(r"[\w, -]+", str(value), re.ASCII):
        raise ValueError("names of OpenSSL's installed providers")
    return value


_JAVA_CLASS = "a Java class; records are copied as bytes"
_JMX = "metrics of the Java client"
_GROUP = "no consumer group is joined: partitions are assigned"
_POLL = "the engine sizes its own batches"
_JAVA_TLS = "a setting of Java's TLS; OpenSSL negotiates its own"
_LOGIN = "a setting of Java's login module"
_BROKER_SIDE = "it matters to brokers only"
_JAVA_AUTH = "Java code cannot be loaded; use the sasl.oauthbearer.* properties of librdkafka"
_VERSIONS = "brokers are asked for their versions: old requests know no transactions"
_NO_CODE = "a pipeline file does not load code"
_COMMITS = "progress is committed to the commit topic, never to the source's group"

RULES: dict[str, Rule] = {
    # Consumer
    "fetch.max.wait.ms": Renamed("fetch.wait.max.ms", Between(0, 300_000)),
    "fetch.min.bytes": Renamed("fetch.min.bytes", Between(1, 100_000_000)),
    "fetch.max.bytes": Renamed("fetch.max.bytes", Between(0, 2_147_483_135)),
    "max.partition.fetch.bytes": Renamed("fetch.message.max.bytes", Between(1, 1_000_000_000)),
    "auto.offset.reset": Renamed("auto.offset.reset", _start),
    "isolation.level": Renamed("isolation.level", _isolation),
    "max.poll.records": NoEffect(_POLL),
    "max.poll.interval.ms": NoEffect(_GROUP),
    "session.timeout.ms": NoEffect(_GROUP),
    "heartbeat.interval.ms": NoEffect(_GROUP),
    "partition.assignment.strategy": NoEffect(_GROUP),
    "group.instance.id": NoEffect(_GROUP),
    "group.protocol": NoEffect(_GROUP),
    "group.protocol.type": NoEffect(_GROUP),
    "group.remote.assignor": NoEffect(_GROUP),
    "exclude.internal.topics": NoEffect("internal topics are never selected", fine="true"),
    "default.api.timeout.ms": NoEffect("every call has the engine's own deadline"),
    "key.deserializer": NoEffect(_JAVA_CLASS),
    "value.deserializer": NoEffect(_JAVA_CLASS),
    "share.acknowledgement.mode": NoEffect("no share group is joined"),
    "share.acquire.mode": NoEffect("no share group is joined"),
    "allow.auto.create.topics": NoEffect("reading never creates a topic", fine="false"),
    # Producer
    "buffer.memory": Renamed("queue.buffering.max.kbytes", _kilobytes, "bytes to KiB"),
    "batch.size": Renamed("batch.size", Between(1, 2**31 - 1), "no more than the target topics take"),
    "linger.ms": Renamed("linger.ms", _milliseconds),
    "partitioner.class": Renamed("partitioner", _partitioner, "Kafka's own partitioners only"),
    "max.request.size": NoEffect("the target's max.message.bytes decides what is too large"),
    "message.max.bytes": NoEffect("the target's max.message.bytes decides what is too large"),
    "max.block.ms": NoEffect("a full queue waits until the commit is due"),
    "delivery.timeout.ms": NoEffect("a record has as long as its transaction"),
    "message.timeout.ms": NoEffect("a record has as long as its transaction"),
    "metadata.max.idle.ms": NoEffect("no equivalent in librdkafka"),
    "partitioner.adaptive.partitioning.enable": NoEffect("no equivalent in librdkafka"),
    "partitioner.availability.timeout.ms": NoEffect("no equivalent in librdkafka"),
    "key.serializer": NoEffect(_JAVA_CLASS),
    "value.serializer": NoEffect(_JAVA_CLASS),
    "transaction.two.phase.commit.enable": NoEffect("the engine commits its own transactions"),
    # All clients
    "request.timeout.ms": Renamed("socket.timeout.ms", Between(10, 300_000)),
    "metadata.max.age.ms": Renamed("topic.metadata.refresh.interval.ms", Between(10, 3_600_000)),
    "send.buffer.bytes": Renamed("socket.send.buffer.bytes", Between(0, 100_000_000), "-1 becomes 0"),
    "receive.buffer.bytes": Renamed("socket.receive.buffer.bytes", Between(0, 100_000_000), "-1 becomes 0"),
    "connections.max.idle.ms": Renamed("connections.max.idle.ms", Between(0, 2**31 - 1), "-1 becomes 0"),
    "socket.connection.setup.timeout.ms": Renamed(
        "socket.connection.setup.timeout.ms",
        Between(1000, 2**31 - 1),
    ),
    "reconnect.backoff.ms": Renamed("reconnect.backoff.ms", Between(0, 3_600_000)),
    "reconnect.backoff.max.ms": Renamed("reconnect.backoff.max.ms", Between(0, 3_600_000)),
    "retry.backoff.ms": Renamed("retry.backoff.ms", Between(1, 300_000)),
    "retry.backoff.max.ms": Renamed("retry.backoff.max.ms", Between(1, 300_000)),
    "socket.connection.setup.timeout.max.ms": NoEffect("no equivalent in librdkafka"),
    "bootstrap.controllers": NoEffect("brokers are asked, by bootstrap.servers"),
    "auto.include.jmx.reporter": NoEffect(_JMX),
    "metrics.log.level": NoEffect(_JMX),
    "metric.reporters": NoEffect(_JMX),
    "metrics.num.samples": NoEffect(_JMX),
    "metrics.recording.level": NoEffect(_JMX),
    "metrics.sample.window.ms": NoEffect(_JMX),
    "interceptor.classes": NoEffect("Java classes are not loaded"),
    "api.version.request": NoEffect(_VERSIONS, fine="true"),
    "api.version.fallback.ms": NoEffect(_VERSIONS),
    "broker.version.fallback": NoEffect(_VERSIONS),
    # TLS
    "ssl.protocol": NoEffect(_JAVA_TLS),
    "ssl.enabled.protocols": NoEffect(_JAVA_TLS),
    "ssl.provider": NoEffect(_JAVA_TLS),
    "ssl.keymanager.algorithm": NoEffect(_JAVA_TLS),
    "ssl.trustmanager.algorithm": NoEffect(_JAVA_TLS),
    "ssl.secure.random.implementation": NoEffect(_JAVA_TLS),
    "ssl.engine.factory.class": Impossible("Java code cannot be loaded; use the ssl.* properties of librdkafka"),
    "security.providers": Impossible("Java code cannot be loaded"),
    "ssl.engine.location": Impossible(_NO_CODE),
    "ssl.engine.id": Impossible(_NO_CODE),
    "ssl.providers": Renamed("ssl.providers", _openssl_providers),
    # SASL
    "sasl.login.class": Impossible(_JAVA_AUTH),
    "sasl.oauthbearer.assertion.template.file": Renamed("sasl.oauthbearer.assertion.jwt.template.file"),
    "sasl.oauthbearer.jwt.validator.class": NoEffect(_BROKER_SIDE),
    "sasl.jaas.config.jndi.allowlist": NoEffect("Java's login modules are not loaded"),
    "sasl.kerberos.ticket.renew.jitter": NoEffect(_LOGIN),
    "sasl.kerberos.ticket.renew.window.factor": NoEffect(_LOGIN),
    "sasl.login.connect.timeout.ms": NoEffect(_LOGIN),
    "sasl.login.read.timeout.ms": NoEffect(_LOGIN),
    "sasl.login.refresh.buffer.seconds": NoEffect(_LOGIN),
    "sasl.login.refresh.min.period.seconds": NoEffect(_LOGIN),
    "sasl.login.refresh.window.factor": NoEffect(_LOGIN),
    "sasl.login.refresh.window.jitter": NoEffect(_LOGIN),
    "sasl.login.retry.backoff.max.ms": NoEffect(_LOGIN),
    "sasl.login.retry.backoff.ms": NoEffect(_LOGIN),
    "sasl.oauthbearer.clock.skew.seconds": NoEffect(_BROKER_SIDE),
    "sasl.oauthbearer.expected.audience": NoEffect(_BROKER_SIDE),
    "sasl.oauthbearer.expected.issuer": NoEffect(_BROKER_SIDE),
    "sasl.oauthbearer.header.urlencode": NoEffect("no equivalent in librdkafka"),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": NoEffect(_BROKER_SIDE),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": NoEffect(_BROKER_SIDE),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": NoEffect(_BROKER_SIDE),
    "sasl.oauthbearer.jwks.endpoint.url": NoEffect(_BROKER_SIDE),
    "sasl.oauthbearer.scope.claim.name": NoEffect(_BROKER_SIDE),
    # librdkafka's own names that the engine must set itself
    "enable.auto.commit": NoEffect(_COMMITS, fine="false"),
    "auto.commit.interval.ms": NoEffect(_COMMITS, fine="false"),
    "auto.commit.enable": NoEffect(_COMMITS, fine="false"),
    "enable.auto.offset.store": NoEffect(_COMMITS, fine="false"),
    "offset.store.method": NoEffect(_COMMITS, fine="false"),
    "offset.store.path": NoEffect(_COMMITS, fine="false"),
    "offset.store.sync.interval.ms": NoEffect(_COMMITS, fine="false"),
    "enable.partition.eof": NoEffect("the engine needs it and sets it", fine="true"),
    "enable.gapless.guarantee": NoEffect("the engine sets it where it is needed"),
    "delivery.report.only.error": NoEffect("the engine needs the reports of successes for target offsets"),
    "produce.offset.report": NoEffect("the engine needs the reports of successes for target offsets"),
    "queuing.strategy": NoEffect("the order of records is kept"),
    "transactional.id": Impossible("the engine gives each slot its own; take it out"),
    "plugin.library.paths": Impossible(_NO_CODE),
}
"""The rule of each name. Java's meaning counts where both libraries have the name."""

_BY_PREFIX: dict[str, Rule] = {"group.share.": NoEffect("no share group is joined")}


def rule_of(name: str) -> Rule | None:
    """The rule of a name; None for librdkafka's own names and for unknown ones."""
    return RULES.get(name) or next((rule for prefix, rule in _BY_PREFIX.items() if name.startswith(prefix)), None)
