"""The history of copied records over the last minutes, from the counters in commit records. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.newest_commits import NewestCommits
from k2k_assets.core.topic_partition import TopicPartition

STEPS = 20
STEP_SECONDS = 30
"""Length of a step; the `STEPS` steps of a topic's history are ten minutes."""
_RATE_SECONDS = 60


class CopyHistory:
    """Folds commit records, in the order of the log, into numbers of records by topic and time.

    A commit record has the total of its generation so far: the difference between two records of a partition is the
    number of records copied between them. For the first record that is seen this number is not known.
    """

    def __init__(self) -> None:
        self._newest: NewestCommits[TopicPartition] = NewestCommits()
        self._copied: dict[str, deque[tuple[int, int]]] = defaultdict(deque)

    @property
    def newest(self) -> Mapping[TopicPartition, CommitRecord]:
        """The newest commit record of each partition, as far as it was read."""
        return self._newest.records

    def apply(self, record: CommitRecord) -> None:
        """Takes in one commit record."""
        before = self.newest.get(record.source)
        if not self._newest.take(record.source, record) or before is None:
            return
        counted = before.records if before.generation == record.generation else 0
        if record.records > counted:
            self._copied[record.source.topic].append((record.time, record.records - counted))

    def steps(self, topic: str, now: int) -> list[int]:
        """Records copied in each of the last `STEPS` steps, the newest last.

        Args:
            topic: Source topic.
            now: Milliseconds since the epoch.
        """
        copied = self._copied[topic]
        begin = now - STEPS * STEP_SECONDS * 1000
        while copied and copied[0][0] <= begin:
            copied.popleft()
        counts = [0] * STEPS
        for time, records in copied:
            if time > begin:  # records of different partitions are not in the order of time
                counts[min(STEPS - 1, (time - begin) // (STEP_SECONDS * 1000))] += records
        return counts

    def rate(self, topic: str, now: int) -> float:
        """Records per second over the last minute."""
        begin = now - _RATE_SECONDS * 1000
        return sum(records for time, records in self._copied[topic] if time > begin) / _RATE_SECONDS
