"""Lets the source of a copy, of whichever transport, be another one than it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.transport.interface import Polled, Position, Source


class WrappedSource:
    """A source around another one; what a test needs to be different it overrides."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def assign(
        self, positions: Mapping[TopicPartition, Position], keep_waiting: Callable[[], None] | None = None
    ) -> None:
        self._source.assign(positions, keep_waiting)

    def poll(self, limit: int, timeout: float) -> Polled:
        return self._source.poll(limit, timeout)

    def gather(self, seconds: float) -> None:
        self._source.gather(seconds)

    def close(self) -> None:
        self._source.close()


def wrap_sources(monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Source], Source]) -> None:
    """Wraps the source of every session of this process."""
    make: Any = Slot._source
    monkeypatch.setattr(Slot, "_source", lambda slot: wrap(make(slot)))
