"""Logs the events of a replication that people want to read."""

from __future__ import annotations

import logging

from k2k_assets.core.words import plural
from k2k_assets.replication.driver.events import Event, GenerationStarted

log = logging.getLogger("k2k.replication")


def log_event(event: Event) -> None:
    """Logs a line for each new generation; the slots log their own events."""
    if isinstance(event, GenerationStarted):
        partitions, slots = plural(event.partitions, "partition"), plural(event.slots, "slot")
        log.info("generation %d: %s in %s", event.generation, partitions, slots)
