"""Points in time on the command line: milliseconds since the epoch, or ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime

import click


class Timestamp(click.ParamType):  # type: ignore[type-arg]  # older releases of click refuse the argument
    """Milliseconds since the epoch; ISO text without a zone means UTC, as in Kafka."""

    name = "ms|iso"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds since the epoch."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        if text.isdecimal():
            return int(text)
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is neither milliseconds since the epoch nor a time like 2026-01-31T12:00:00Z")
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
