"""Makes librdkafka clients with the settings that every client of this project shares."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from k2k_assets.core.errors import ClusterUnreachable, NotAllowed, Refused
from k2k_assets.core.words import ACLS_HINT
from k2k_assets.kafka.messages import Consumer

C = TypeVar("C", Consumer, Producer, AdminClient)

# Without a logger librdkafka prints connection noise ("1/1 brokers are down") itself, past our logging.
_log = logging.getLogger("k2k.librdkafka")
_log.addHandler(logging.NullHandler())
_log.propagate = False

# With the defaults the first connection to each broker waits out a back-off that is meant for failures.
_QUICK: dict[str, object] = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 1000}

_UNREACHABLE = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError._TIMED_OUT_QUEUE,
        # The connection broke, and the client replaced its entry of the broker (librdkafka 2.16).
        KafkaError._DESTROY_BROKER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)

_LOST = frozenset({KafkaError._TRANSPORT, KafkaError._DESTROY_BROKER, KafkaError.NETWORK_EXCEPTION})

_NO_ANSWER = (
    "does not answer",
    "Check {role}.kafka.common.'bootstrap.servers', that the brokers run, and that this machine reaches them.",
)
# Part of librdkafka's message, what it means, and what to do.
_CLOSED_DOORS = (
    (
        "SASL authentication error",
        "refuses the login",
        "Check the user name, the password and the mechanism (sasl.*) in {role}.kafka, and that the cluster knows the "
        "user.",
    ),
    (
        "SSL routines",
        "cannot be talked to over TLS",
        "Check ssl.* in {role}.kafka: the authority that signed the brokers' certificates, this client's own "
        "certificate if they ask for one, and that 'bootstrap.servers' is the address in their certificates. If the "
        "brokers' port takes no TLS, 'security.protocol' is PLAINTEXT or SASL_PLAINTEXT.",
    ),
)


def consumer(properties: Mapping[str, object], settings: Mapping[str, object] | None = None) -> Consumer:
    """Makes a consumer without group membership: it is assigned, never subscribed, and commits nothing.

    Args:
        properties: The user's settings, librdkafka names.
        settings: Our settings; they win.
    """
    fixed = {"enable.auto.commit": False, "auto.offset.reset": "error"}
    return _made(Consumer, {"group.id": "k2k", **_QUICK, **properties, **(settings or {}), **fixed})


def producer(properties: Mapping[str, object], settings: Mapping[str, object] | None = None) -> Producer:
    """Makes a producer from the user's properties and our settings; ours win."""
    return _made(Producer, {**_QUICK, **properties, **(settings or {})})


def admin(properties: Mapping[str, object], settings: Mapping[str, object] | None = None) -> AdminClient:
    """Makes an admin client from the user's properties and our settings; ours win."""
    return _made(AdminClient, {**_QUICK, **properties, **(settings or {})})


def _made(kind: type[C], properties: dict[str, Any]) -> C:
    try:
        return kind(properties, logger=_log)
    except KafkaException as error:
        said = error_of(error).str()
        advice = f". {NO_KERBEROS}" if "SASL mechanism GSSAPI" in said else ""
        raise Refused(f"a Kafka client cannot be made with these settings: {said}{advice}") from None


NO_KERBEROS = (
    "The confluent-kafka of PyPI is built without Kerberos (GSSAPI). Let the pipeline sign in with a password "
    "(SCRAM-SHA-512), a token (OAUTHBEARER) or a client certificate; or build it with libsasl2: install librdkafka "
    "with its headers, then pip install --no-binary confluent-kafka confluent-kafka"
)


def ensure_mechanism(role: str, properties: Mapping[str, object]) -> None:
    """Makes sure that the installed client can sign in as the settings say; connects to nothing.

    Args:
        role: Names the cluster in the error.
        properties: The user's settings, librdkafka names.

    Raises:
        Refused: It cannot.
    """
    protocol = str(properties.get("security.protocol", "")).lower()
    mechanism = properties.get("sasl.mechanisms", properties.get("sasl.mechanism", "GSSAPI"))
    if not protocol.startswith("sasl") or str(mechanism).upper() != "GSSAPI":
        return
    try:
        Producer({"builtin.features": "sasl_gssapi"}, logger=_log)
    except KafkaException:
        raise Refused(f"{role}.kafka: signing in by Kerberos is not possible here. {NO_KERBEROS}") from None


def know_cluster(client: Consumer | Producer, timeout: float) -> None:
    """Fetches the brokers, so that the next call of a new client need not wait for them.

    A client that does not know the brokers yet looks for them each 0.5 s; an assignment or a transactional id waits.

    Raises:
        KafkaException: No broker answers in time.
    """
    client.list_topics(timeout=timeout)


def error_of(error: KafkaException) -> KafkaError:
    """The `KafkaError` that an exception carries."""
    inside: KafkaError = error.args[0]
    return inside


def has_lost_connection(answer: Future[Any]) -> bool:
    """Whether a request was lost with the connection to its broker, so that another broker may answer it."""
    error = answer.exception() if answer.done() else None
    return isinstance(error, KafkaException) and error_of(error).code() in _LOST


def is_unreachable(error: KafkaError) -> bool:
    """Whether the error says that no broker answered, as opposed to a refusal."""
    return error.code() in _UNREACHABLE


def is_refused_login(error: KafkaError) -> bool:
    """Whether a broker refused this client's credentials or certificate, or this client refused the broker's."""
    return is_closed_door(error.str())


def is_closed_door(why: object) -> bool:
    """Whether a text says that a broker refused the login or the certificate, or this client the broker's."""
    return _closed_door(why) is not None


def advice_on_login(role: str, why: object) -> str:
    """The advice to append to a text if it is about a login or TLS; else it is empty."""
    found = _closed_door(why)
    return f". {found[1].format(role=role)}" if found else ""


def _closed_door(why: object) -> tuple[str, str] | None:
    """What a text about a login or a certificate means, and what to do; None if it is about something else."""
    return next(((what, advice) for word, what, advice in _CLOSED_DOORS if word in str(why)), None)


def is_about_rights(error: KafkaError) -> bool:
    """Whether the error says that the principal lacks a right."""
    return "AUTHORIZATION_FAILED" in error.name()


def advice(error: KafkaError) -> str:
    """The advice to append to an error's text. Only for missing rights there is a general one; else it is empty."""
    return f". {ACLS_HINT}" if is_about_rights(error) else ""


def refused(what: str, error: KafkaError) -> Refused:
    """Makes the error for a request that a cluster refuses.

    Args:
        what: What was refused, or failed; the text begins with it.
        error: What the cluster said.

    Returns:
        `NotAllowed` with advice if the principal lacks a right, else `Refused`.
    """
    kind = NotAllowed if is_about_rights(error) else Refused
    return kind(f"{what}: {error.str()} ({error.name()}){advice(error)}")


def is_about_the_group(error: KafkaError) -> bool:
    """Whether the error only says that the principal may not use the consumer's group.

    An assigned consumer needs no group. librdkafka looks up the coordinator of its `group.id` all the same, and reports
    the refusal among the messages.
    """
    return error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def unreachable(role: str, properties: Mapping[str, object], why: object) -> ClusterUnreachable:
    """Makes the error for a cluster that does not answer, or refuses the login."""
    servers = properties.get("bootstrap.servers", "?")
    what, advice = _closed_door(why) or _NO_ANSWER
    return ClusterUnreachable(f"the {role} cluster at {servers} {what}: {why}. {advice.format(role=role)}")
