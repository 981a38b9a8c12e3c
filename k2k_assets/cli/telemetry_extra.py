"""Says what is missing where `-t` is given and the extra `telemetry` is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from k2k_assets.core.errors import Refused


@contextmanager
def telemetry_needed() -> Iterator[None]:
    """Around imports of the room `telemetry`.

    Raises:
        Refused: A package of the extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        raise Refused(
            f"-t needs OpenTelemetry, and {missing.name} is not installed: pip install 'k2k-assets[telemetry]'"
        ) from None
