"""The cursor of a sensor, which Dagster keeps between ticks: JSON with a version."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict


class SensorCursor(BaseModel):
    """Base class of cursors; subclasses add fields, and their version as a default.

    Attributes:
        version: Version of the fields.
    """

    model_config = ConfigDict(frozen=True)

    version: int

    @classmethod
    def read(cls, text: str | None) -> Self:
        """A cursor from its JSON; an empty cursor if this release cannot read it."""
        empty = cls()  # type: ignore[call-arg]  # subclasses have a default for each field
        try:
            cursor = cls.model_validate_json(text or "")
        except ValueError:
            return empty
        return cursor if cursor.version == empty.version else empty
