"""Short hashes of many versions for a sensor's cursor, which Dagster stores with each tick: eight bytes each."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping

# Enough bytes that a collision among thousands of topics, or a missed change of one, is very unlikely.
_NAME, _VERSION = 5, 3
_BYTES = _NAME + _VERSION


class Marks:
    """Hashes of versions by name; they can only be compared.

    Args:
        packed: Text from the property `packed`.

    Raises:
        ValueError: The text has another form.
    """

    def __init__(self, packed: str = "") -> None:
        content = base64.b64decode(packed, validate=True)
        if len(content) % _BYTES:
            raise ValueError(f"{len(content)} bytes are not marks of {_BYTES}")
        pieces = (content[at : at + _BYTES] for at in range(0, len(content), _BYTES))
        self._marks = {piece[:_NAME]: piece[_NAME:] for piece in pieces}

    @classmethod
    def of(cls, versions: Mapping[str, str]) -> Marks:
        """Marks of some versions, by name."""
        return cls().updated(versions)

    @property
    def packed(self) -> str:
        """The marks as text."""
        return base64.b64encode(b"".join(name + version for name, version in sorted(self._marks.items()))).decode()

    def knows(self, name: str) -> bool:
        """Whether there is a version of a name."""
        return _short(name, _NAME) in self._marks

    def are(self, name: str, version: str | None) -> bool:
        """Whether a name has this version; None: whether it has none."""
        return self._marks.get(_short(name, _NAME)) == (None if version is None else _short(version, _VERSION))

    def updated(self, versions: Mapping[str, str]) -> Marks:
        """The marks with new versions of some names."""
        return self._with(self._marks | {_short(n, _NAME): _short(v, _VERSION) for n, v in versions.items()})

    def limited_to(self, names: Iterable[str]) -> Marks:
        """The marks of some names only."""
        kept = {_short(name, _NAME) for name in names}
        return self._with({name: version for name, version in self._marks.items() if name in kept})

    def without(self, names: Iterable[str]) -> Marks:
        """The marks without some names."""
        gone = {_short(name, _NAME) for name in names}
        return self._with({name: version for name, version in self._marks.items() if name not in gone})

    def _with(self, marks: dict[bytes, bytes]) -> Marks:
        other = Marks()
        other._marks = marks
        return other


def _short(text: str, length: int) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:length]
