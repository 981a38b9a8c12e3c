"""The records of control topics as JSON: one struct for each key and value lists the fields in their order.

A field without a default is required. A field whose default is None is left out where it is None. `written` marks
fields that older releases did not write: they have a default, but are always written. Readers ignore unknown fields, so
a newer release may add some. A field that an older release must not ignore needs a new version.
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
    """The fields of a key, or of a part of a value."""


class Value(Fields, frozen=True):
    """The fields of a value.

    Attributes:
        version: Version of the format; a release refuses versions that it does not know yet.
    """

    version: int


V = TypeVar("V", bound=Value)


def written(default: T) -> T:
    """The default of a field that is written even where it has this default."""
    # msgspec leaves a field out that equals its default; it never compares with what a factory makes.
    of_field: T = msgspec.field(default_factory=lambda: default)
    return of_field


def fields_of(record: object, kind: type[S], **others: Any) -> S:
    """Makes a struct from the attributes of a record that have the names of its fields.

    Args:
        record: Has an attribute for each field without a default that is not among `others`.
        kind: The struct to make.
        others: Fields whose value differs from the record's attribute.
    """
    if not others:
        return msgspec.convert(record, kind, from_attributes=True)
    names = kind.__struct_fields__
    return kind(**{name: others[name] if name in others else getattr(record, name) for name in names})


def contents(fields: Struct, *others: str) -> dict[str, Any]:
    """The fields by name, as keyword arguments for the record; the version is left out.

    Args:
        fields: The struct of a key or a value.
        others: Fields that are left out too.
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
        kind: The struct of the key.
        data: UTF-8 JSON.
        where: Where the record lies, for the error: "__k2k_consumer-offsets-0@17".

    Raises:
        ValueError: The data is no such key.
    """
    return _decode(kind, data, f"{where}, key")


def decode(kind: type[V], data: bytes | None, newest: int, where: str) -> V:
    """Reads a value.

    Args:
        kind: The struct of the value.
        data: UTF-8 JSON.
        newest: The newest version that this release knows.
        where: Where the record lies, for the error.

    Raises:
        ValueError: The data is no such value, or a newer release wrote it.
    """
    value = _decode(kind, data, where, newest)
    _ensure_known(value.version, newest, where)
    return value


def read(kind: type[S], document: dict[str, Any], where: str) -> S:
    """Reads a key from its JSON document, which the caller had to decode to learn the kind of the key.

    Raises:
        ValueError: The document is no such key.
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
        if newest is not None:  # fields that do not fit may belong to a newer version: then the error says so
            _ensure_known(json_codec.decode(data, where).get("version"), newest, where)
        raise _wrong(where, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{where}: is not JSON ({error})") from None


def _ensure_known(version: object, newest: int, where: str) -> None:
    if not isinstance(version, int) or not 1 <= version <= newest:
        raise ValueError(f"{where}: version {version!r} is unknown here (1 to {newest} are read); upgrade k2k")


def _wrong(where: str, error: Exception) -> ValueError:
    return ValueError(f"{where}: field missing or of a wrong type: {error}")
