"""A partition that has no leader, on the source or on the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.reason import StopReason


@dataclass(frozen=True)
class LeaderMissing(StopReason, code="no-leader"):
    """A partition, on the source or on the target, had no leader for as long as a run with an end waits.

    Attributes:
        words: Which partition, and what its cluster said.
    """

    title = "a partition has no leader, in a run with an end"
    meaning = (
        "The brokers that hold the partition, on the source or on the target, are down. `k2k start` without an end "
        "goes on with the other partitions and takes this one up when it has a leader."
    )
    advice = (
        "Bring back the brokers that hold it. A target partition whose only replica went in the middle of a "
        "transaction may come back with that transaction hanging, as Kafka 4.3.1 forgets its marker: it is then "
        "stopped by [`open-transaction`](#open-transaction)."
    )

    words: str

    def found(self) -> str:
        return self.words

    def to_do(self) -> str:
        return "Nothing was skipped: the next run copies on from its position"

    @classmethod
    def example(cls) -> Self:
        return cls(
            "the source cluster at kafka-a:9092 has no leader that answers for orders-0 (Broker: Leader not available)"
        )
