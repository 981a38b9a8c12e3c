"""Where a run logs its events."""

from __future__ import annotations

from typing import Protocol

import dagster as dg


class EventSink(Protocol):
    """What of a Dagster step's context is used here."""

    def log_event(self, event: dg.AssetMaterialization) -> None:
        """Logs an event of this run."""
