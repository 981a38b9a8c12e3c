"""How far a replication goes before it ends by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class UntilCaughtUp:
    """Until all that was committed on the source at the start is committed on the target."""


@dataclass(frozen=True, slots=True)
class Window:
    """For a bounded time.

    Attributes:
        duration: At most this long.
        idle: Ends early after this long without a record.
    """

    duration: timedelta
    idle: timedelta


@dataclass(frozen=True, slots=True)
class Continuous:
    """Until somebody stops it."""


Extent = UntilCaughtUp | Window | Continuous
