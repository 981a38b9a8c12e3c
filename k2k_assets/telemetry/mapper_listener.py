"""What hears of a mapper's polls while its metrics are exported."""

from __future__ import annotations

from typing import NamedTuple

from k2k_assets.core.errors import K2KError
from k2k_assets.groups.report import PollResult
from k2k_assets.telemetry.mapper_health import MapperWatch
from k2k_assets.telemetry.mapper_instruments import MapperInstruments
from k2k_assets.telemetry.tracing import PollSpans


class MapperListener(NamedTuple):
    """Called in the mapper's thread.

    Attributes:
        watch: Follows the mapper's health.
        instruments: Count.
        spans: Make spans of polls; None: nobody does.
    """

    watch: MapperWatch
    instruments: MapperInstruments
    spans: PollSpans | None = None

    def polled(self, result: PollResult) -> None:
        """Takes in a poll."""
        self.watch.polled(result)
        self.instruments.polled(result)
        if self.spans:
            self.spans.polled(result)

    def troubled(self, error: K2KError) -> None:
        """Takes in an error that the mapper waits out."""
        self.watch.troubled(error)
        self.instruments.troubled(error)
