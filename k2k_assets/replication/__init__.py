"""The copy engine: plan, instance, slots, transactions, the commit log."""

from __future__ import annotations

from k2k_assets.replication.extent import Continuous, Extent, UntilCaughtUp, Window
from k2k_assets.replication.outcome import Outcome, PartitionOutcome, TopicOutcome
from k2k_assets.replication.progress import PartitionProgress, Progress
from k2k_assets.replication.replicate import replicate

__all__ = [
    "Continuous",
    "Extent",
    "Outcome",
    "PartitionOutcome",
    "PartitionProgress",
    "Progress",
    "TopicOutcome",
    "UntilCaughtUp",
    "Window",
    "replicate",
]
