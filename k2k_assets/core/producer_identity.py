"""Who writes records, as brokers know it."""

from __future__ import annotations

from typing import NamedTuple


class ProducerIdentity(NamedTuple):
    """A producer id with its epoch.

    Once a broker has a batch of one epoch in a partition, it refuses those of earlier epochs of the same id there.
    """

    producer_id: int
    epoch: int
