"""Copies the topics without functions of users while a function of another topic takes long.

```
  the function is called      2 s                          it returns, or is ended
  all partitions are read     those of the others alone    all partitions are read
```

The chunk that the function has is not in hand. So is none of its topic behind it: the source is made to read the other
partitions only, as nothing that it would bring for the function's could be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from k2k_assets.core.clock import Clock
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.commit.committer import Committer
from k2k_assets.replication.slot.commit.partition_state import PartitionState
from k2k_assets.replication.slot.commit.transactions import Transactions
from k2k_assets.replication.slot.read.intake import Intake
from k2k_assets.transport.errors import NotByTransport, SourceStopped
from k2k_assets.transport.interface import Polled, Source

# How long a function may take until the source is made to read the others alone, which costs some requests.
_PATIENCE_SECONDS = 2.0
# How long to wait for records of the others, and to copy them at most, before the function is looked at again.
_POLL_SECONDS, _TURN_SECONDS = 0.05, 1.0


class OtherTopics:
    """Copies the others of one session.

    Args:
        source: Reads the source.
        transactions: The transactions of the session.
        committer: Commits them.
        intake: Takes the records.
        most: Records that one poll takes.
        clock: The session's clock.
        last: Tells of a topic whether its stages may take long; None: there are no others.
    """

    def __init__(
        self,
        source: Source,
        transactions: Transactions,
        committer: Committer,
        intake: Intake,
        most: int,
        clock: Clock,
        last: Callable[[str], bool] | None,
    ) -> None:
        self._source = source
        self._transactions = transactions
        self._committer = committer
        self._intake = intake
        self._most = most
        self._clock = clock
        self._last = last
        self._states: Mapping[TopicPartition, PartitionState] = {}
        self._others: dict[TopicPartition, PartitionState] = {}
        self._are_alone = False

    def begin(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Takes in the partitions that the session copies."""
        self._states = states
        last = self._last
        if last is not None and any(last(tp.topic) for tp in states):
            self._others = {tp: state for tp, state in states.items() if not last(tp.topic)}

    def go_on(self, waited: float) -> None:
        """Copies what has arrived of the others, and commits it.

        Args:
            waited: For how many seconds the function has been running.

        Raises:
            ClusterUnreachable: The source does not answer.
            SourceStopped: One of them cannot go on.
            Restart: The target refused a step.
        """
        if not self._others or (not self._are_alone and waited < _PATIENCE_SECONDS):
            return
        if not self._are_alone:
            self._read(self._others)
            self._are_alone = True
        ends = self._clock.monotonic() + _TURN_SECONDS
        dry = False
        while not dry and self._clock.monotonic() < ends:
            limit = min(self._most, self._committer.room())
            polled = self._poll(limit)
            now = self._clock.monotonic()
            dry = sum(chunk.count for chunk in polled.chunks) + polled.passed < limit
            self._intake.take(polled, self._states, now)
            self._committer.commit_if_due(dry, now)
        if self._transactions.records:
            self._committer.commit()  # the function's chunk has to find room

    def _poll(self, limit: int) -> Polled:
        try:
            return self._source.poll(limit, _POLL_SECONDS)
        except SourceStopped as stopped:
            self._committer.keep_promise(stopped.reason)
            raise
        except NotByTransport:
            self._committer.commit()  # as `Session` does: nothing may be under way when another transport takes over
            raise

    def end(self) -> None:
        """Lets the source read all partitions again, when all chunks of functions are in hand.

        Raises:
            ClusterUnreachable: The source does not answer.
            Restart: The target refused a step.
        """
        if self._are_alone:
            self._are_alone = False
            self._read(self._states)

    def _read(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        """Makes the source read these alone, from where the target says: so what is in hand is committed first."""
        if self._transactions.records or any(state.moved for state in self._states.values()):
            self._committer.commit()
        self._source.assign({tp: state.reading_from for tp, state in partitions.items()})
