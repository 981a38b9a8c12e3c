"""The small value types of the language: flags, durations, topic names, and the base of all sections."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from k2k_assets.pipeline.parsing.problems import Path

_DURATION = re.compile(r"(\d+)\s+(milliseconds?|millis?|seconds?|minutes?|hours?)", re.ASCII)
_WRITTEN_DURATION = r"^[0-9]+\s+(milliseconds?|millis?|seconds?|minutes?|hours?)$"
SCALAR_SCHEMA: dict[str, Any] = {"type": ["string", "number", "boolean", "null"]}
"""A scalar in a map of texts; null removes an earlier file's value."""

_UNITS = {
    "milli": "milliseconds",
    "millisecond": "milliseconds",
    "second": "seconds",
    "minute": "minutes",
    "hour": "hours",
}
_MAX_DURATION_DIGITS = 9
_TEAM_OR_ADDRESS = re.compile(r"team:[^\s:]+|[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}", re.ASCII)
_TOPIC_CHARACTERS = re.compile(r"[a-zA-Z0-9._-]*")
MAX_TOPIC_NAME = 249
MAX_COUNT = 2**31 - 1


class Section(BaseModel):
    """Base of every section: frozen, YAML names in camelCase, unknown keys refused, no value in any error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )


def fault(expected: str, *, hint: str = "", at: Path = (), shown: bool = True) -> NoReturn:
    """Refuse a value from inside a validator.

    Args:
        expected: what the file should have.
        hint: a sentence that says what to do.
        at: path of the fault below the validated field.
        shown: whether the message also shows what was found.
    """
    raise PydanticCustomError("k2k", "{expected}", {"expected": expected, "hint": hint, "at": at, "shown": shown})


def flag(value: object) -> bool:
    """Reads `enabled` or `disabled`, from inside a validator."""
    if value == "enabled":
        return True
    if value == "disabled":
        return False
    hint = ""
    if isinstance(value, bool):
        hint = f"Write {'enabled' if value else 'disabled'}."
    fault("enabled or disabled", hint=hint)


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not match or len(match[1]) > _MAX_DURATION_DIGITS:
        hint = "A whole number, a space and milliseconds, seconds, minutes or hours."
        fault("a duration such as '5 seconds'", hint=hint)
    return timedelta(**{_UNITS[match[2].removesuffix("s")]: int(match[1])})


def _owner(value: str) -> str:
    if not _TEAM_OR_ADDRESS.fullmatch(value):
        fault("an owner", hint="A team, such as 'team:payments', or an email address.")
    return value


def _above_zero(value: timedelta) -> timedelta:
    if not value:
        fault("a duration above zero")
    return value


def _not_a_boolean(value: object) -> object:
    # pydantic would read `true` as 1.
    if isinstance(value, bool):
        fault("a whole number")
    return value


KAFKA_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Topics in which Kafka keeps its own state."""


def topic_name_fault(name: str) -> str | None:
    """Why Kafka refuses a topic name, or None. Legal: 1-249 of `a-z A-Z 0-9 . _ -`, but not `.` and `..`."""
    if not _TOPIC_CHARACTERS.fullmatch(name):
        return "a topic name of letters, digits, '.', '_' and '-'"
    if name in ("", ".", "..") or len(name) > MAX_TOPIC_NAME:
        return "a topic name of 1 to 249 characters, not '.' or '..'"
    return None


def _topic_name(value: object) -> object:
    if isinstance(value, str):
        if why := topic_name_fault(value):
            fault(why)
        if value in KAFKA_INTERNAL:
            fault("a topic of the pipeline's own", hint="Kafka keeps its state in this one.")
    return value


def _text_map(value: object) -> object:
    """Converts scalars to text: most users write `true` and `1` without quotes, but Kafka needs text."""
    if not isinstance(value, dict):
        return value
    return {key: scalar_text(item, (key,)) for key, item in value.items()}


def scalar_text(value: object, at: Path) -> str:
    """A scalar as text, booleans as Kafka writes them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    fault("a text, a number, true or false", at=at)


Flag = Annotated[bool, BeforeValidator(flag), WithJsonSchema({"enum": ["enabled", "disabled"]})]
"""`enabled` or `disabled` in the file, a bool here."""

Owner = Annotated[str, AfterValidator(_owner)]
"""The owner of a Dagster asset: an email address, or a team such as `team:payments`."""

Duration = Annotated[
    timedelta, BeforeValidator(_duration), WithJsonSchema({"type": "string", "pattern": _WRITTEN_DURATION})
]
"""`<number> <milliseconds|seconds|minutes|hours>` in the file, a timedelta here."""

PositiveDuration = Annotated[Duration, AfterValidator(_above_zero)]
"""A duration above zero."""

Count = Annotated[
    int,
    BeforeValidator(_not_a_boolean),
    Field(ge=1, le=MAX_COUNT),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_COUNT}),
]
"""A whole number from 1."""

TopicName = Annotated[
    str,
    BeforeValidator(_topic_name),
    WithJsonSchema({"type": "string", "pattern": "^[a-zA-Z0-9._-]+$", "maxLength": MAX_TOPIC_NAME}),
]
"""A legal Kafka topic name."""

TextMap = Annotated[
    dict[str, str],
    BeforeValidator(_text_map),
    WithJsonSchema({"type": "object", "additionalProperties": SCALAR_SCHEMA}),
]
"""Keys to scalars, as text."""


def format_duration(value: timedelta) -> str:
    """A duration as the file writes it, in the largest unit that fits: `5 minutes`."""
    millis = round(value.total_seconds() * 1000)
    for unit, size in (("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        if millis and millis % size == 0:
            return f"{millis // size} {unit}{'s' * (millis != size)}"
    return f"{millis} millisecond{'s' * (millis != 1)}"
