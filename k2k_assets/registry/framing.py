"""The bytes that Confluent's serializers write before a payload: a magic byte, and the id of its schema. Pure."""

from __future__ import annotations

PREFIX = 5
"""How many they are."""

_MAGIC = b"\0"


def has_schema_id(payload: bytes) -> bool:
    """Whether a payload, or its first bytes, may begin with a schema id."""
    return len(payload) >= PREFIX and payload.startswith(_MAGIC)


def id_of(prefix: bytes) -> int:
    """The schema id that the first bytes of a payload hold, most significant byte first."""
    return int.from_bytes(prefix[1:PREFIX], "big")


def prefix_of(schema_id: int) -> bytes:
    """The first bytes of a payload with a schema id."""
    return _MAGIC + schema_id.to_bytes(PREFIX - 1, "big")
