"""Calls a producer of the client library, and turns its errors into those of `transport/errors.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from k2k_assets.core.errors import NotAllowed
from k2k_assets.kafka import clients
from k2k_assets.transport.errors import Fatal, Fenced, Forbidden, Restart, TimeoutTooLong, timeout_too_long

_FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
_FORBIDDEN = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


def call(step: str, function: Callable[..., Any], *args: object) -> Any:
    """Calls a function of a producer.

    Raises:
        Fenced: Another producer holds the transactional id now.
        Forbidden: The principal may not write to a topic.
        TimeoutTooLong: The transaction time-out is longer than the brokers allow.
        NotAllowed: The principal may not use the transactional id, or not write to the cluster.
        Fatal: The producer cannot be used any more.
        Restart: Any other error: nothing in memory can be trusted.
    """
    try:
        return function(*args)
    except (KafkaException, SystemError) as raised:
        # The client wraps a fatal error that occurs during a delivery report in a SystemError.
        exception = raised if isinstance(raised, KafkaException) else raised.__cause__
        if not isinstance(exception, KafkaException):
            raise
        error = clients.error_of(exception)
        if error.code() in _FENCED:
            raise Fenced(f"{step}: {error.str()}") from None
        if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            raise TimeoutTooLong(timeout_too_long(None, None)) from None
        not_allowed = f"target cluster: {step} is not allowed: {error.str()}{clients.advice(error)}"
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise Forbidden(not_allowed) from None
        if error.code() in _FORBIDDEN:
            raise NotAllowed(not_allowed) from None
        raise (Fatal if error.fatal() else Restart)(f"{step}: {error.str()} ({error.name()})") from None


def claim(producer: Producer, timeout: float, what: str) -> None:
    """Initialises the producer's transactional id: this fences its former holder, and aborts its open transaction.

    Raises:
        NotAllowed: The principal may not use the id.
        Restart: The target did not answer in time.
    """
    call(what, clients.know_cluster, producer, timeout)
    call(what, producer.init_transactions, timeout)
