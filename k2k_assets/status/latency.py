"""How long records take from being produced to their commit on the target, measured at newest commits.

```
  source offset   ...  116   117   118      the newest commit record of the partition: position 119, written at T
                                    └─ the last record below: produced at t, by its timestamp    latency T - t
```

No record is decoded for it on its way: where it counts, the last one is read once more from the source. It is a sample,
of the partition's newest transaction; of a record that has waited in a backlog it is the wait. Both clocks count: that
of who set the timestamp, and that of who committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.waiting_records import WaitingRecords

# The last offset below a position is often the marker of the source's own transaction.
_LOOK_BACK = (1, 2)


class CommitLatency:
    """Measures it. Joins no group and commits nothing.

    Args:
        pipeline: Read like its copy reads.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._records = WaitingRecords(pipeline)

    def measure(self, commits: Collection[CommitRecord]) -> dict[TopicPartition, float]:
        """Seconds, by source partition; without those of which the last record cannot be told.

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
        """Lets go of the client."""
        self._records.close()

    def __enter__(self) -> CommitLatency:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def latencies(commits: Collection[CommitRecord], produced: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
    """From timestamps of records to their commits, in seconds; 0 where the clocks say that it was committed before.

    Args:
        commits: The newest commit record of each partition.
        produced: Timestamp of the last record below its position, milliseconds since the epoch.
    """
    return {
        record.source: max(0, record.time - produced[record.source]) / 1000
        for record in commits
        if record.source in produced
    }
