"""The records of control topics as JSON: a struct for each key and value says which fields there are, in their order.

A field without a default has to be there. One that is None by default is left out where it is None. `written` is for
fields that older releases did not write: they have a default, and are written always. Fields that are not known are
passed over, so a newer release may add some; what an older one could not do without takes a new version.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from k2k_assets.core import json_codec

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

_encode = msgspec.json.Encoder().encode


class Fields(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A key, or a part of a value."""


class Value(Fields, frozen=True):
    """A value.

    Attributes:
        version: Of its form; a release refuses those that are newer than it knows.
    """

    version: int


V = TypeVar("V", bound=Value)


def written(default: T) -> T:
    """The default of a field that is written also where it has its default."""
    # A field is left out where it is its default itself; what a factory makes is never compared.
    of_field: T = msgspec.field(default_factory=lambda: default)
    return of_field


def fields_of(record: object, kind: type[S], **others: Any) -> S:
    """The fields of a kind, from the attributes of a record.

    Args:
        record: Has an attribute for each field that is not among the others, or the field has a default.
        kind: Which fields there are.
        others: Those that are written otherwise than the record has them.
    """
    if not others:
        return msgspec.convert(record, kind, from_attributes=True)
    names = kind.__struct_fields__
    return kind(**{name: others[name] if name in others else getattr(record, name) for name in names})


def contents(fields: Struct, *others: str) -> dict[str, Any]:
    """The fields by their names, for the record that they make up.

    Args:
        fields: Of a key or a value.
        others: Those that are left out, as is the version.
    """
    found = msgspec.structs.asdict(fields)
    return {name: value for name, value in found.items() if name != "version" and name not in others}


def document(fields: Struct) -> dict[str, Any]:
    """The fields as they are in JSON."""
    found: dict[str, Any] = msgspec.to_builtins(fields)
    return found


def encode(fields: Struct) -> bytes:
    """A key or a value as UTF-8 JSON."""
    return _encode(fields)


def decode_key(kind: type[S], data: bytes | None, where: str) -> S:
    """Reads a key.

    Args:
        kind: Which fields it has.
        data: UTF-8 JSON.
        where: Named in the error: "__k2k_consumer-offsets-0@17".

    Raises:
        ValueError: It is no such key.
    """
    return _decode(kind, data, f"{where}, key")


def decode(kind: type[V], data: bytes | None, newest: int, where: str) -> V:
    """Reads a value.

    Args:
        kind: Which fields it has.
        data: UTF-8 JSON.
        newest: The newest version that is known.
        where: As for `decode_key`.

    Raises:
        ValueError: It is no such value, or a newer release wrote it.
    """
    value = _decode(kind, data, where, newest)
    _ensure_known(value.version, newest, where)
    return value


def read(kind: type[S], document: dict[str, Any], where: str) -> S:
    """Reads a key that was decoded before it was known of which kind it is.

    Raises:
        ValueError: It is no such key.
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise _wrong(where, error) from None


def _decode(kind: type[S], data: bytes | None, where: str, newest: int | None = None) -> S:
    if data is None:
        raise ValueError(f"{where}: has no value")
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        if newest is not None:  # fields that do not fit may be those of a newer version: that is what has to be told
            _ensure_known(json_codec.decode(data, where).get("version"), newest, where)
        raise _wrong(where, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: is not JSON ({error})") from None


def _ensure_known(version: object, newest: int, where: str) -> None:
    if not isinstance(version, int) or not 1 <= version <= newest:
        raise ValueError(f"{where}: version {version!r} is unknown here (1 to {newest} are read); upgrade k2k")


def _wrong(where: str, error: Exception) -> ValueError:
    return ValueError(f"{where}: field missing or of a wrong type: {error}")
