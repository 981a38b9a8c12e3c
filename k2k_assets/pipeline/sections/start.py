"""`replication[].source.start`: where a partition without a position begins. Others continue at their position."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from k2k_assets.core.topic_partition import HIGHEST_OFFSET
from k2k_assets.pipeline.sections.values import fault, topic_name_fault

_FORMS = "earliest, latest, a time or a map of topics to partitions to offsets"
_HINT = "A time is 2026-01-31T12:00:00Z, or milliseconds since the epoch; offsets are { orders: { 0: 1200, 1: 1180 } }."
# Smaller numbers are no times: 20260131 would be an hour of 1970, and all would be copied.
_YEAR_2000 = 946_684_800_000
_NO_TIME = "A number is milliseconds since the epoch, from the year 2000 on. Write 2026-01-31, or earliest."


def _start(value: object) -> object:
    if value in ("earliest", "latest"):
        return value
    if isinstance(value, Mapping) and value:
        return {topic: _offsets(topic, partitions) for topic, partitions in value.items()}
    at = _milliseconds(value)
    if at is None or not 0 <= at <= HIGHEST_OFFSET:
        fault(_FORMS, hint=_HINT)
    return at


def _milliseconds(value: object) -> int | None:
    """A time; without a zone it is UTC, as in Kafka."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value < _YEAR_2000:
            fault(_FORMS, hint=_NO_TIME)
        return value
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _offsets(topic: str, partitions: object) -> dict[int, int]:
    if why := topic_name_fault(topic):
        fault(why, at=(topic,), shown=False)
    if not isinstance(partitions, Mapping) or not partitions:
        fault("a map of partitions to offsets", hint=_HINT, at=(topic,))
    found: dict[int, int] = {}
    for partition, offset in partitions.items():
        at = (topic, partition)
        # Keys from a file are text.
        if not str(partition).isdecimal() or int(partition) >= 2**31:
            fault("the number of a partition", at=at, shown=False)
        if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= HIGHEST_OFFSET:
            fault("an offset", at=at)
        found[int(partition)] = offset
    return found


_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"enum": ["earliest", "latest"]},
        {"type": "integer", "minimum": _YEAR_2000},
        {"type": "string", "description": "A time, such as 2026-01-31T12:00:00Z."},
        {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "patternProperties": {"^[0-9]+$": {"type": "integer", "minimum": 0}},
                "additionalProperties": False,
            },
        },
    ]
}

Start = Annotated[
    Literal["earliest", "latest"] | int | dict[str, dict[int, int]], BeforeValidator(_start), WithJsonSchema(_SCHEMA)
]
"""`earliest`, `latest`, milliseconds since the epoch, or offsets by topic and partition."""
