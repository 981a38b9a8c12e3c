"""How much is measured: the full amount, and a quick one to try the benchmark itself."""

from __future__ import annotations

from dataclasses import dataclass

PARTITIONS = 4
GROUPS = "offsets-"
"""What the names of all groups begin with."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to write the source topic.

    Attributes:
        title: As tables name it.
        topic: The topic.
        transactional: Whether its records come in transactions, with a marker after each and some of them aborted.
    """

    title: str
    topic: str
    transactional: bool

    def group(self, lag: int, early: bool = False) -> str:
        """The group that stands so many records before the end.

        Args:
            lag: How many.
            early: The one that stands there before a tool starts, and stays; else the one that comes there later.
        """
        return f"{GROUPS}{self.topic}-lag-{lag}{'-early' if early else ''}"


KINDS = (Kind("plain", "plain", False), Kind("transactions", "transactions", True))


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run measures.

    Attributes:
        lags: Records between a group's position and the end of each partition.
        records: In each partition before anything is copied.
        rounds: How often groups are committed right after live writing.
        more: Fewest and most records written to a partition in a round.
        rate: Records a second and partition while a round is written.
        idle_seconds: Pause before the last round's commits, when nothing has been written for so long.
        still_seconds: A position that has not moved for so long is taken as final.
        full: Whether the figures are worth keeping.
    """

    lags: tuple[int, ...]
    records: int
    rounds: int
    more: tuple[int, int]
    rate: int
    idle_seconds: float
    still_seconds: float
    full: bool


FULL = Plan(
    lags=(0, 1, 10, 1000, 100_000),
    records=220_000,
    rounds=5,
    more=(1000, 2500),
    rate=500,
    # MirrorMaker 2 publishes the newest position of a partition that went quiet after 60 s (offset.flush.interval.ms).
    idle_seconds=65.0,
    still_seconds=5.0,
    full=True,
)
QUICK = Plan(
    lags=(0, 1, 10, 1000),
    records=3000,
    rounds=1,
    more=(200, 400),
    rate=500,
    idle_seconds=0.0,
    still_seconds=4.0,
    full=False,
)
