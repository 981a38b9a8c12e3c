"""Client settings that a guarantee needs.

Under exactly-once a contrary setting is refused, and the message shows the value needed. Under at-least-once the
engine's producer is idempotent too; a contrary setting is dropped and named in a warning. The engine sets what is
absent.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from k2k_assets.pipeline.clients.java_properties import Scalar, whole

DEFAULT_TRANSACTION_TIMEOUT = timedelta(seconds=15)
SYNC_MARGIN = timedelta(seconds=10)
"""The broker aborts a dead writer's transaction after its timeout, which it checks every 10 s. Until then the commit
topic cannot be read to its end."""


class PropertyNeed(NamedTuple):
    """What a setting must be: `holds` says whether a value is right, `needed` describes the right values."""

    needed: str
    holds: Callable[[Scalar], bool]


def _number(holds: Callable[[int], bool]) -> Callable[[Scalar], bool]:
    def check(value: Scalar) -> bool:
        try:
            return holds(whole(value))
        except ValueError:
            return False

    return check


_ACKS = PropertyNeed("all", lambda value: str(value) in ("all", "-1"))
_IN_FLIGHT = PropertyNeed("at most 5", _number(lambda count: 1 <= count <= 5))
_RETRIES = PropertyNeed("at least 1", _number(lambda count: count >= 1))

PRODUCER: dict[str, PropertyNeed] = {
    "enable.idempotence": PropertyNeed("true", lambda value: str(value).lower() == "true"),
    "acks": _ACKS,
    "request.required.acks": _ACKS,
    "max.in.flight.requests.per.connection": _IN_FLIGHT,
    "max.in.flight": _IN_FLIGHT,
    "retries": _RETRIES,
    "message.send.max.retries": _RETRIES,
}
"""Needed of the target's producer, always."""

CONSUMER: dict[str, PropertyNeed] = {
    "isolation.level": PropertyNeed("read_committed", lambda value: str(value).strip().lower() == "read_committed"),
}
"""Needed of the source's consumer under exactly-once, and of the readers of control topics always."""


def needs(cluster: str, client: str, exactly_once: bool) -> dict[str, PropertyNeed]:
    """What is needed of one client's settings."""
    if cluster == "target" and client == "producer":
        return PRODUCER
    if client == "consumer" and (exactly_once or cluster == "target"):
        return CONSUMER
    return {}
