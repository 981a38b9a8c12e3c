"""Stop reasons as JSON documents: in control records, and on their way from Spark's workers to the driver.

`{"code": "records-deleted", "facts": {"source": {"topic": "orders", "partition": 0}, "position": 3, "logStart": 8}}`
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, get_type_hints

from msgspec import Raw

from k2k_assets.core import json_codec
from k2k_assets.core.stops.catalog import ALL
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.core.topic_partition import TopicPartition


def document_of(reason: StopReason) -> dict[str, Any]:
    """The code and the facts of a reason."""
    facts = {_camel(field.name): _written(getattr(reason, field.name)) for field in fields(reason)}
    return {"code": reason.code, "facts": facts}


def written(reason: StopReason) -> tuple[str, Raw]:
    """A reason for a control record: as text, for releases that know no codes, and as a document."""
    return render(reason, with_code=False), Raw(json_codec.encode(document_of(reason)))


def reason_of(document: object, text: str) -> StopReason:
    """Reads a reason.

    Args:
        document: The output of `document_of`, perhaps of an older or newer release; None if there is none.
        text: The text for people that was written beside the document.

    Returns:
        The reason; `Unclassified` with the text if this release does not know the code or the facts.
    """
    if not isinstance(document, dict):
        return Unclassified(text)
    code = str(document.get("code"))
    try:
        return _read(ALL[code], document["facts"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return Unclassified(text, code)


def _read(kind: type[StopReason], facts: dict[str, Any]) -> StopReason:
    return kind(**{name: _typed(facts[key], of) for name, key, of in _facts_of(kind) if key in facts})


@cache
def _facts_of(kind: type[StopReason]) -> list[tuple[str, str, Any]]:
    """Name, key and type of each fact."""
    types = get_type_hints(kind)
    return [(field.name, _camel(field.name), types[field.name]) for field in fields(kind)]


def _typed(value: Any, of: Any) -> Any:
    if of is TopicPartition:
        return TopicPartition(str(value["topic"]), int(value["partition"]))
    if of is float:
        return float(value)
    if not isinstance(value, of):
        raise TypeError(f"{value!r} is no {of}")
    return value


def _written(value: object) -> object:
    return value._asdict() if isinstance(value, TopicPartition) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
