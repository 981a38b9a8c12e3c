"""What a sensor remembers between ticks, as Dagster keeps it: JSON of one version."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict


class SensorCursor(BaseModel):
    """To be subclassed with what is remembered, and with the version as the default.

    Attributes:
        version: Of this form.
    """

    model_config = ConfigDict(frozen=True)

    version: int

    @classmethod
    def read(cls, text: str | None) -> Self:
        """A cursor from its JSON; an empty one when there is none that this release can read."""
        empty = cls()  # type: ignore[call-arg]  # subclasses have a default for each field
        try:
            cursor = cls.model_validate_json(text or "")
        except ValueError:
            return empty
        return cursor if cursor.version == empty.version else empty
