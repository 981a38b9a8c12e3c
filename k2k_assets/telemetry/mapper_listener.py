"""What hears of a mapper's polls while its metrics are exported."""

from __future__ import annotations

from typing import NamedTuple

from k2k_assets.core.errors import K2KError
from k2k_assets.groups.report import PollResult
from k2k_assets.telemetry.mapper_health import MapperWatch
from k2k_assets.telemetry.mapper_instruments import MapperInstruments


class MapperListener(NamedTuple):
    """Called in the mapper's thread.

    Attributes:
        watch: Follows the mapper's health.
        instruments: Count.
    """

    watch: MapperWatch
    instruments: MapperInstruments

    def polled(self, result: PollResult) -> None:
        """Takes in a poll."""
        self.watch.polled(result)
        self.instruments.polled(result)

    def troubled(self, error: K2KError) -> None:
        """Takes in an error that the mapper waits out."""
        self.watch.troubled(error)
        self.instruments.troubled(error)
