"""Keys and values as JSON: read once, changed in place, and written anew only if they were changed.

Numbers are written as they were read, digit for digit. Bytes before the JSON that name its schema, as Confluent's JSON
Schema serializer writes them, stay as they are.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from k2k_assets.registry.framing import PREFIX, has_schema_id


class RecordFault(Exception):
    """A rule cannot be applied to a record; the message says why."""


class Document:
    """A key or value that is JSON.

    Args:
        payload: Its bytes.

    Attributes:
        content: What the JSON holds; numbers with a fraction or exponent, and long ones, as `Number`.
        is_changed: Whether `content` was changed.

    Raises:
        RecordFault: It is not JSON.
    """

    __slots__ = ("_before", "_payload", "content", "is_changed")

    def __init__(self, payload: bytes) -> None:
        framed = has_schema_id(payload)
        self._payload = payload
        self._before = payload[:PREFIX] if framed else b""
        try:
            self.content: Any = _decoder.decode(payload[PREFIX:] if framed else payload)
        # What the record holds is not told: it may be what a mask is to hide.
        except UnicodeDecodeError:
            raise RecordFault("it is not JSON (a text in it is not UTF-8)") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise RecordFault(f"it is not JSON ({error})") from None
        self.is_changed = False

    def ensure_said_once(self, name: str) -> None:
        """Ensures that no object of it has a member twice, if one may have this name.

        Of two only the last one is in `content`. Whoever finds nothing to hide there would leave the other one, in
        bytes that are copied as they are.

        Raises:
            RecordFault: One has.
        """
        text = self._payload[len(self._before) :]
        if name.encode() in text or b"\\" in text:  # an escape may stand for any letter
            json.loads(text, object_pairs_hook=_once, parse_int=str, parse_float=str)

    def payload(self) -> bytes:
        """The bytes of the changed content."""
        return self._before + _encoder.encode(self.content)


def _once(members: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in members}) < len(members):
        raise RecordFault("an object in it has a member twice, of which a reader may take either")


Number = msgspec.Raw
"""A number as its digits, which are written as they are."""


def _number(digits: str) -> Number:
    return Number(digits)


def value_of(number: Number) -> float:
    """A number to compare with."""
    return float(bytes(number))


_decoder = msgspec.json.Decoder(float_hook=_number)
_encoder = msgspec.json.Encoder()
