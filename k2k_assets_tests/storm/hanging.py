"""Aborts a transaction whose markers a broker has lost, as an administrator would.

Kafka 4.3.1 can take a partition for deleted when it has just come back, and leave a transaction in it open for ever.
Of one on the target the rest may be committed: then the comparison finds what is torn.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable

from k2k_assets_tests.storm.journal import Journal
from k2k_assets_tests.support.brokers.kafka import SECONDS, admin, end_offsets
from k2k_assets_tests.support.brokers.kafka_tools import tool

# Ten times as long as any transaction of a storm may last.
_HANGS_SECONDS = 30.0
_TOOL_SECONDS = 60.0


class HangingTransactions:
    """Looks for them again and again.

    Args:
        journal: Takes what was aborted.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._since: dict[tuple[str, str, int, int], float] = {}

    def abort(self, servers: str, topics: Iterable[str]) -> None:
        """Aborts those that have been open for too long since the first look.

        Args:
            servers: The cluster.
            topics: Where to look, if they exist.
        """
        existing = admin(servers).list_topics(timeout=SECONDS).topics
        for topic in existing.keys() & set(topics):
            ends, stable = end_offsets(servers, topic), end_offsets(servers, topic, "read_committed")
            for partition, begin in stable.items():
                if begin < ends[partition]:
                    self._look_at(servers, topic, partition, begin)

    def _look_at(self, servers: str, topic: str, partition: int, begin: int) -> None:
        since = self._since.setdefault((servers, topic, partition, begin), time.monotonic())
        if time.monotonic() - since < _HANGS_SECONDS:
            return
        at = ["--topic", topic, "--partition", str(partition), "--start-offset", str(begin)]
        command = [*tool("TransactionsCommand"), "--bootstrap-server", servers, "abort", *at]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_SECONDS)
        assert not done.returncode, done.stderr
        self._journal.note(f"aborted what hung in {topic}-{partition} from offset {begin}")
