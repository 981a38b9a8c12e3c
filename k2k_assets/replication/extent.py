"""The extent of a replication: when it ends by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class UntilCaughtUp:
    """The replication ends when all records that the source held at the start are committed on the target."""


@dataclass(frozen=True, slots=True)
class Window:
    """The replication ends after a time.

    Attributes:
        duration: Longest duration.
        idle: It ends early after this long without a record.
    """

    duration: timedelta
    idle: timedelta


@dataclass(frozen=True, slots=True)
class Continuous:
    """The replication goes on until somebody stops it."""


Extent = UntilCaughtUp | Window | Continuous
