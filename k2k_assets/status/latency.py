"""Measures the latency from the production of records to their commit on the target, at the newest commits.

```
  source offset   ...  116   117   118      the newest commit record of the partition: position 119, written at T
                                    └─ the last record below: produced at t, by its timestamp    latency T - t
```

The copy loop decodes no record for it: the last record is read once more from the source. The latency is a sample, of
the partition's newest transaction; for a record of a backlog it includes the wait. It depends on two clocks: that of
the machine that set the timestamp, and that of the slot that committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.waiting_records import WaitingRecords

# Offsets below the position at which the last record is looked for: the last one is often a marker of the source.
_LOOK_BACK = (1, 2)


class CommitLatency:
    """Measures commit latency. It joins no group and commits nothing.

    Args:
        pipeline: The pipeline; the source is read with its settings.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._records = WaitingRecords(pipeline)

    def measure(self, commits: Collection[CommitRecord]) -> dict[TopicPartition, float]:
        """Latency in seconds, by source partition; partitions whose last record cannot be found are left out.

        Args:
            commits: The newest commit record of each partition.
        """
        positions = {record.source: record.position for record in commits if record.kind == "commit"}
        produced: dict[TopicPartition, int] = {}
        for back in _LOOK_BACK:
            left = {tp: (at - back, at) for tp, at in positions.items() if tp not in produced and at >= back}
            found = self._records.oldest(left) if left else {}
            produced |= {tp: at for tp, at in found.items() if at is not None}
        return latencies(commits, produced)

    def close(self) -> None:
        """Closes the client."""
        self._records.close()

    def __enter__(self) -> CommitLatency:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def latencies(commits: Collection[CommitRecord], produced: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
    """Seconds from the timestamps of records to their commits; 0 if the clocks say that the commit was earlier.

    Args:
        commits: The newest commit record of each partition.
        produced: Timestamp of the last record below its position, milliseconds since the epoch.
    """
    return {
        record.source: max(0, record.time - produced[record.source]) / 1000
        for record in commits
        if record.source in produced
    }
