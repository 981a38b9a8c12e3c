"""One variable of a pipeline file: loads its value and applies its mappers.

No message contains any part of a value.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from k2k_assets.pipeline.parsing.problems import shorten

LOADERS = ("env", "file")
MAPPERS = ("base64", "number", "raw", "string")
MAX_VALUE_BYTES = 1_000_000
"""Largest file with a value, in bytes; also the most characters of all values of a pipeline file together."""

_NUMBER = re.compile(r"[-+]?[0-9]{1,30}|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")


class _NoValue(Exception):
    """Says why a variable has no value; never contains any part of one."""


@dataclass(frozen=True)
class Variable:
    """One use of a variable.

    Attributes:
        spelled: Its text in the file: `${file:/run/secrets/password}`.
        value: Its value, or None with a `fault`.
        fault: Why it has no value.
    """

    spelled: str
    value: str | int | float | None = field(default=None, repr=False)
    fault: str = ""


def load(inside: str) -> tuple[Variable, bool]:
    """The variable between the braces, and whether it is raw; one without a value has a `fault`.

    Args:
        inside: `file:base64:/run/secrets/password`.
    """
    spelled = f"${{{shorten(inside)}}}"
    loader, mappers, name = _parsed(inside)
    try:
        value: str | int | float = (_of_environment if loader == "env" else _of_file)(name)
        for mapper in mappers:
            value = _MAPPERS[mapper](str(value))
    except _NoValue as why:
        return Variable(spelled, fault=f"{spelled}: {why}"), "raw" in mappers
    return Variable(spelled, value), "raw" in mappers


def _parsed(inside: str) -> tuple[str, list[str], str]:
    parts = inside.split(":")
    loader = parts.pop(0) if len(parts) > 1 and parts[0] in LOADERS else "env"
    mappers: list[str] = []
    while len(parts) > 1 and parts[0] in MAPPERS:
        mappers.append(parts.pop(0))
    return loader, mappers, ":".join(parts)


def _of_environment(name: str) -> str:
    if not name:
        raise _NoValue("the name of the variable is missing")
    if ":" in name:
        known = f"the loaders are {', '.join(LOADERS)}, the mappers {', '.join(MAPPERS)}"
        raise _NoValue(f"'{shorten(name.partition(':')[0])}' is neither a loader nor a mapper; {known}")
    value = os.environ.get(name)
    if value is None:
        raise _NoValue(f"the environment has no variable '{shorten(name)}'")
    return _text(os.fsencode(value))


def _of_file(name: str) -> str:
    if not os.path.isabs(name):
        raise _NoValue("expected the absolute path of a file")
    try:
        content = _content(name)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a path of a file"
        raise _NoValue(f"the file cannot be read: {why}") from None
    if len(content) > MAX_VALUE_BYTES:
        raise _NoValue(f"the file is larger than {MAX_VALUE_BYTES} bytes")
    # Editors and `echo` end a file with a line break, which is not a part of a password.
    text = _text(content)
    return text.removesuffix("\n").removesuffix("\r")


def _content(path: str) -> bytes:
    # Non-blocking, because a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _NoValue("it is not a regular file")
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(MAX_VALUE_BYTES + 1)
    finally:
        os.close(descriptor)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _NoValue("the value is not UTF-8 text") from None


def _base64(value: str) -> str:
    try:
        return _text(base64.b64decode("".join(value.split()), validate=True))
    except (binascii.Error, ValueError):
        raise _NoValue("the value is not base 64") from None


def _number(value: str) -> int | float:
    if not _NUMBER.fullmatch(value.strip()):
        raise _NoValue("the value is not a number")
    try:
        return int(value)
    except ValueError:
        return float(value)


_MAPPERS: dict[str, Callable[[str], str | int | float]] = {
    "base64": _base64,
    "number": _number,
    "raw": str,
    "string": str,
}
