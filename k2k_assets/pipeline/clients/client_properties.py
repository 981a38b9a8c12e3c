"""Client properties of a pipeline file, as librdkafka takes them.

A name is looked up in this order: settings that a guarantee needs (`guarantees`), TLS and SASL (`security`), the Java
table (`java_properties`), librdkafka's own names. Every dropped property is reported, except those in `common` that are
for another kind of client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from k2k_assets.pipeline.clients import guarantees, librdkafka_names
from k2k_assets.pipeline.clients.java_properties import (
    RULES,
    Between,
    Impossible,
    NoEffect,
    Renamed,
    Scalar,
    rule_of,
    whole,
)
from k2k_assets.pipeline.clients.security import KEYS as SECURITY_KEYS
from k2k_assets.pipeline.clients.security import kinit_is_path, translate_security
from k2k_assets.pipeline.parsing.problems import MAX_HINTS, describe, nearest

ClusterRole = Literal["source", "target"]
ClientKind = Literal["consumer", "producer", "admin"]

CLIENTS: tuple[tuple[ClusterRole, ClientKind], ...] = (
    ("source", "consumer"),
    ("source", "admin"),
    ("target", "consumer"),
    ("target", "producer"),
    ("target", "admin"),
)

_SCOPES: dict[ClientKind, frozenset[str]] = {
    "consumer": librdkafka_names.ALL_CLIENTS | librdkafka_names.CONSUMER,
    "producer": librdkafka_names.ALL_CLIENTS | librdkafka_names.PRODUCER,
    "admin": librdkafka_names.ALL_CLIENTS,
}
_LEVELS = {f"compression.{codec}.level": codec for codec in ("gzip", "lz4", "zstd")}
_MAX_LEVEL = 12
_REQUEST_MARGIN_MS = 500  # librdkafka wants socket.timeout.ms at least 100 ms below transaction.timeout.ms
_READS = "control topics are read to their end: the engine sets it"
_RESENDS = "it decides when an answer counts as lost: under exactly-once the engine sets it"
_POSITIONS = "positions depend on it: the engine sets it"
_NO_GROUP = "no group is joined on the target"
_SET_BY_ENGINE: dict[tuple[ClusterRole, ClientKind], dict[str, str]] = {
    ("source", "consumer"): {"enable.partition.eof": _POSITIONS, "enable.auto.offset.store": _POSITIONS},
    ("target", "consumer"): {"group.id": _NO_GROUP} | dict.fromkeys(
        (
            "enable.partition.eof", "enable.auto.offset.store",
            "fetch.wait.max.ms", "fetch.queue.backoff.ms", "fetch.error.backoff.ms",
        ),
        _READS,
    ),
    ("target", "producer"): {"retry.backoff.ms": _RESENDS, "retry.backoff.max.ms": _RESENDS},
}  # fmt: skip
"""librdkafka's names for which the user's value has no effect."""
KNOWN = frozenset(RULES) | librdkafka_names.NAMES | SECURITY_KEYS | frozenset(_LEVELS) | {"partitioner.ignore.keys"}
"""All known names."""


class Remark(NamedTuple):
    """A remark about one key: its section, the key, and the reason."""

    section: str
    key: str
    text: str


@dataclass
class PropertyTranslation:
    """librdkafka's properties, the keys without effect, and the keys that are refused."""

    values: dict[str, Scalar] = field(default_factory=dict)
    warnings: list[Remark] = field(default_factory=list)
    faults: list[Remark] = field(default_factory=list)


def translate(
    cluster: ClusterRole,
    client: ClientKind,
    sections: Sequence[tuple[str, Mapping[str, Scalar]]],
    *,
    exactly_once: bool,
) -> PropertyTranslation:
    """Translate the properties of one client.

    Args:
        cluster: whose client it is.
        client: the kind of client.
        sections: name and content of the sections that apply; the last one wins.
        exactly_once: whether settings that break a guarantee are refused.
    """
    origin = {key: name for name, section in sections for key in section}
    given = _merged(section for _, section in sections)
    result = PropertyTranslation()
    needs = guarantees.needs(cluster, client, exactly_once)
    ours = _set_by_engine(cluster, client, exactly_once)
    security = {key: value for key, value in given.items() if key in SECURITY_KEYS}
    values, security_faults = translate_security(security)
    result.values.update(values)
    result.faults += [Remark(origin[f.key], f.key, str(f)) for f in security_faults]
    if kinit_is_path(security):
        key = "sasl.kerberos.kinit.cmd"
        result.warnings.append(Remark(origin[key], key, "librdkafka wants the whole command, not only a path"))
    for key, value in given.items():
        if (reason := ours.get(_renamed(key))) is not None:
            result.warnings.append(Remark(origin[key], key, reason))
        elif key not in SECURITY_KEYS:
            _one(key, value, origin[key], client, needs.get(key), exactly_once, result)
    if client == "producer":
        _finish_producer(given, origin, result)
    return result


def _merged(sections: Iterable[Mapping[str, Scalar]]) -> dict[str, Scalar]:
    """The last section wins. `sasl.jaas.config` contains user and password, so it replaces earlier ones."""
    given: dict[str, Scalar] = {}
    for section in sections:
        if "sasl.jaas.config" in section:
            for key in ("sasl.username", "sasl.password"):
                given.pop(key, None)
        given.update(section)
    return given


def _set_by_engine(cluster: ClusterRole, client: ClientKind, exactly_once: bool) -> dict[str, str]:
    if client == "producer" and not exactly_once:
        return {}  # they are for records; the producer that commits positions uses the engine's settings
    return _SET_BY_ENGINE.get((cluster, client), {})


def _renamed(key: str) -> str:
    rule = rule_of(key)
    return rule.to if isinstance(rule, Renamed) else key


def _one(
    key: str,
    value: Scalar,
    section: str,
    client: ClientKind,
    need: guarantees.PropertyNeed | None,
    exactly_once: bool,
    result: PropertyTranslation,
) -> None:
    if need is not None and not need.holds(value):
        if exactly_once:
            found = describe(value, (key,))
            result.faults.append(Remark(section, key, f"exactly-once needs {need.needed}, found {found}"))
        else:
            result.warnings.append(Remark(section, key, f"the engine needs {need.needed} and sets it"))
        return
    if key in _LEVELS or key == "partitioner.ignore.keys":
        return  # see _finish_producer
    rule = rule_of(key)
    if isinstance(rule, NoEffect):
        if rule.fine is None or str(value).lower() != rule.fine:
            result.warnings.append(Remark(section, key, rule.reason))
    elif isinstance(rule, Impossible):
        result.faults.append(Remark(section, key, f"not possible: {rule.reason}"))
    elif key.startswith("config.providers"):
        result.faults.append(Remark(section, key, "not supported yet"))
    elif rule is None and key not in librdkafka_names.NAMES:
        close = nearest(key, KNOWN) if len(result.faults) < MAX_HINTS else None
        hint = f"; did you mean {close}?" if close else " to Kafka's clients"
        result.faults.append(Remark(section, key, f"unknown property{hint}"))
    else:
        _keep(key, value, section, client, rule, result)


def _keep(
    key: str, value: Scalar, section: str, client: ClientKind, rule: Renamed | None, result: PropertyTranslation
) -> None:
    name = rule.to if rule else key
    if name not in _SCOPES[client]:
        if not section.endswith(".common"):
            result.warnings.append(Remark(section, key, f"no property of the {client} client"))
        return
    if rule and rule.convert:
        asked = value
        try:
            value = rule.convert(value)
        except ValueError as error:
            result.faults.append(Remark(section, key, f"expected {error}, found {describe(value, (key,))}"))
            return
        if isinstance(rule.convert, Between) and rule.convert.clips(asked):
            result.warnings.append(Remark(section, key, f"librdkafka's limit is {value}, which is used"))
    result.values[name] = value


def _finish_producer(given: Mapping[str, Scalar], origin: Mapping[str, str], result: PropertyTranslation) -> None:
    """Properties that depend on other properties of the producer: partitioner, compression level, timeouts."""
    values = result.values
    # A Java producer hashes with murmur2; librdkafka's default would choose other partitions for the same keys.
    values.setdefault("partitioner", "murmur2_random")
    if str(given.get("partitioner.ignore.keys", "")).lower() == "true":
        values["partitioner"] = "random"
    if str(given.get("partitioner.class", "")).endswith("RoundRobinPartitioner"):
        key = "partitioner.class"
        result.warnings.append(Remark(origin[key], key, "no round robin in librdkafka: partitions are drawn at random"))
    for key, codec in _LEVELS.items():
        if key not in given:
            continue
        if values.get("compression.type", values.get("compression.codec")) == codec:
            try:
                level = whole(given[key])
            except ValueError as error:
                result.faults.append(Remark(origin[key], key, f"expected {error}"))
                continue
            values["compression.level"] = min(_MAX_LEVEL, level)
            if level > _MAX_LEVEL:
                result.warnings.append(Remark(origin[key], key, f"librdkafka's limit is {_MAX_LEVEL}, which is used"))
        else:
            result.warnings.append(Remark(origin[key], key, f"compression.type is not {codec}"))
    _limit_request_timeout(given, origin, result)


def _limit_request_timeout(given: Mapping[str, Scalar], origin: Mapping[str, str], result: PropertyTranslation) -> None:
    """librdkafka refuses a client whose request timeout is longer than its transaction timeout."""
    try:
        limit = transaction_timeout_ms(result.values) - _REQUEST_MARGIN_MS
    except ValueError as error:
        key = "transaction.timeout.ms"
        result.faults.append(Remark(origin[key], key, f"expected {error}, found {describe(given[key], (key,))}"))
        return
    timeout = result.values.get("socket.timeout.ms")
    try:
        too_long = timeout is not None and whole(timeout) > limit
    except ValueError:
        return  # the client itself reports a bad value of librdkafka's own property
    if too_long:
        key = "request.timeout.ms" if "request.timeout.ms" in given else "socket.timeout.ms"
        result.values["socket.timeout.ms"] = limit
        result.warnings.append(Remark(origin[key], key, f"limited by transaction.timeout.ms to {limit}"))


def transaction_timeout_ms(values: Mapping[str, Scalar]) -> int:
    """The producer's transaction timeout in milliseconds.

    Raises:
        ValueError: it is not a whole number, or outside librdkafka's limits.
    """
    default = guarantees.DEFAULT_TRANSACTION_TIMEOUT.total_seconds() * 1000
    timeout = whole(values.get("transaction.timeout.ms", int(default)))
    if not 1000 <= timeout < 2**31:
        raise ValueError("a whole number from 1000 to 2147483647")
    return timeout
