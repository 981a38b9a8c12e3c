"""JSON as control topics have it: compact, stable key order, readable with any console consumer."""

from __future__ import annotations

import json
from typing import Any

_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def encode(document: dict[str, Any]) -> bytes:
    """A document as UTF-8 JSON, keys in the order given."""
    return _encoder.encode(document).encode()


def decode(data: bytes | None, what: str) -> dict[str, Any]:
    """Reads a JSON object.

    Args:
        data: UTF-8 JSON.
        what: Names the document in the error: "commit record at __k2k_consumer-offsets-0@17".

    Raises:
        ValueError: The data is no JSON object.
    """
    if data is None:
        raise ValueError(f"{what}: has no value")
    try:
        document = json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{what}: is not JSON ({error})") from None
    if not isinstance(document, dict):
        raise ValueError(f"{what}: is not a JSON object")
    return document
