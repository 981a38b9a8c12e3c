"""Follows a topic: reads each record once, from given offsets on, and reports records that were deleted unread.

```
 the caller waits for the end:  ends ── asks ──> read_until
 the caller does not wait:      refresh <── asks in a thread, when nothing has come for long or the reader has failed
```

The question to the cluster is the same in both cases: is the topic still the one that was followed, where does it end,
and, where that is in doubt, where does it begin?
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, K2KError, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.cluster_offsets import LedOffsets, Which
from k2k_assets.kafka.end_probe import EndProbe
from k2k_assets.kafka.log_reader import LogReader
from k2k_assets.kafka.messages import Message

log = logging.getLogger("k2k.kafka")

# A broker that has just restarted has so many seconds to load its logs.
_SETTLE_SECONDS = 5.0
_POLL_SECONDS = 0.1


class TopicLost(Refused):
    """The topic that was followed is deleted, replaced, or cut off."""


class Deleted(TopicLost):
    """The topic does not exist; or a broker that is starting does not know it yet."""


class Replaced(TopicLost):
    """The topic was created anew or cut off: it will never again be the one that was followed."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The cluster's answers about a topic.

    Attributes:
        topic: Description of the topic.
        ends: High watermarks of the partitions that have a leader.
        readable: Offsets up to which the partitions that are read can be read now.
        starts: Log starts of new partitions; of all partitions if the log starts were in doubt.
        is_sure_of_starts: Whether `starts` covers all partitions.
    """

    topic: TopicDescription
    ends: Mapping[TopicPartition, int]
    readable: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    is_sure_of_starts: bool


def await_topic(cluster: Cluster, name: str) -> TopicDescription:
    """Describes a topic; waits a while for it, because a broker that has just restarted may not know it yet.

    Raises:
        Deleted: The topic does not exist.
    """
    settle = Deadline(_SETTLE_SECONDS)
    while not (found := cluster.describe([name]).get(name)):
        if settle.expired():
            raise Deleted(f"the topic {name} does not exist on the {cluster}")
        time.sleep(_POLL_SECONDS)
    return found


class TopicFollower:
    """Follows a topic with a consumer that is assigned, never subscribed. Only one thread at a time may use it.

    Args:
        topic: Description of the topic; the follower raises `Replaced` when the topic has another id.
        cluster: The cluster of the topic.
        properties: Consumer settings, librdkafka names.
        committed_only: Whether to read committed records only.
        starts: Next offset to read, by partition; other partitions are read from their log start.
        only: Partitions to read; None: all, also those that are added later.
        clock: Seconds that only rise.

    Raises:
        Replaced: The topic ends before an offset that is to be read next.
        ClusterUnreachable: The cluster does not answer.
    """

    def __init__(
        self,
        topic: TopicDescription,
        cluster: Cluster,
        properties: Mapping[str, object],
        *,
        committed_only: bool,
        starts: Mapping[int, int] | None = None,
        only: Collection[int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topic = topic
        self._cluster = cluster
        self._committed_only = committed_only
        self._only = only
        self._lost: list[tuple[int, int, int]] = []
        self._starts_are_doubtful = True
        self._clock = clock
        self._probe = EndProbe(self._look_aside, clock)
        wanted = {tp: (starts or {}).get(tp.partition, 0) for tp in self._partitions_of(topic)}
        seen = self._look(wanted, waits=True)
        self._reader = LogReader(properties, self._from_log_starts(wanted, seen), committed_only, follow=True)
        self._topic, self._starts_are_doubtful = seen.topic, False
        self._answered_at = clock()

    @property
    def silence(self) -> float:
        """Seconds since a record came, or the cluster told where the topic ends; who only refreshes asks after 30."""
        return self._clock() - self._answered_at

    @property
    def topic(self) -> TopicDescription:
        """The newest description of the topic."""
        return self._topic

    @property
    def reached(self) -> Mapping[TopicPartition, int]:
        """Next offset to read, by partition."""
        return self._reader.reached

    def ends(self) -> Mapping[TopicPartition, int]:
        """Asks for the high watermarks, which lie behind records of open transactions; takes in new partitions.

        Raises:
            TopicLost: The topic was deleted, created anew, or cut off.
            ClusterUnreachable: The cluster does not answer.
        """
        seen = self._look(dict(self.reached), waits=True)
        self._adopt(seen)
        return seen.ends

    def read_until(self, ends: Mapping[TopicPartition, int], patience: float) -> Iterator[list[Message]]:
        """Yields batches of records until each partition was read up to its end.

        Args:
            ends: High watermarks.
            patience: Give up after so many seconds without a record: a transaction hangs, or no broker answers.

        Raises:
            ClusterUnreachable: No record came for `patience` seconds.
        """
        deadline, late = Deadline(patience), False
        while behind := {tp: end for tp, end in ends.items() if self.reached[tp] < end}:
            if late:
                self._reader.doubt_if_behind(ends)
                raise ClusterUnreachable(self._not_read(behind, patience))
            late = deadline.expired()
            batch = self._poll(min(0.5, deadline.remaining()))
            if batch:
                yield batch
                deadline, late = Deadline(patience), False  # the caller's work on the batch does not count

    def catch_up(self, patience: float) -> Iterator[list[Message]]:
        """Yields batches of records up to the present ends. Arguments and errors: see `ends` and `read_until`."""
        yield from self.read_until(self.ends(), patience)

    def refresh(self, timeout: float = 0.0) -> list[Message]:
        """Returns the records that have arrived; waits up to `timeout` seconds for one, and for nothing else.

        Raises:
            TopicLost: An answer has come by which the topic was deleted, created anew, or cut off.
            ClusterUnreachable: The cluster refuses the read.
        """
        self._take_answer()
        return self._poll(timeout)

    def take_lost(self) -> list[tuple[int, int, int]]:
        """Ranges that were deleted before they were read, each once: partition, first offset, offset after the last."""
        lost, self._lost = self._lost, []
        return lost

    def log_starts(self) -> dict[int, int]:
        """Asks for the log start of each partition."""
        return {tp.partition: start for tp, start in self._cluster.offsets(self.reached, "earliest").items()}

    def close(self) -> None:
        """Closes the client."""
        self._reader.close()

    # -- reading ------------------------------------------------------------------------------------------------

    def _poll(self, timeout: float) -> list[Message]:
        try:
            batch = self._reader.poll(timeout)
        except ClusterUnreachable:
            self._starts_are_doubtful = True  # the next records to read may be deleted
            self._probe.ask()
            raise
        if batch:
            self._probe.heard()
            self._answered_at = self._clock()
        return batch

    def _take_answer(self) -> None:
        """Takes the answer of the probe, if there is one: a client can hang without an error."""
        try:
            seen = self._probe.answer()
        except TopicLost:
            raise
        except K2KError as error:
            log.debug("where %s ends is not known: %s", self._topic.name, error)
            return
        if seen is not None:
            self._adopt(seen)
            self._reader.doubt_if_behind(seen.readable)

    def _adopt(self, seen: _Seen) -> None:
        reached = self.reached
        moved = {tp: at for tp, at in seen.starts.items() if tp not in reached or at > reached[tp]}
        if moved:
            wanted = {tp: reached.get(tp, 0) for tp in moved}
            self._reader.read_from(self._from_log_starts(wanted, seen))
        self._topic, self._answered_at = seen.topic, self._clock()
        self._starts_are_doubtful &= not seen.is_sure_of_starts

    def _from_log_starts(self, wanted: Mapping[TopicPartition, int], seen: _Seen) -> dict[TopicPartition, int]:
        starts = {tp: seen.starts.get(tp, at) for tp, at in wanted.items()}
        self._lost += [(tp.partition, at, starts[tp]) for tp, at in wanted.items() if at < starts[tp]]
        return {tp: max(at, starts[tp]) for tp, at in wanted.items()}

    def _not_read(self, behind: Mapping[TopicPartition, int], patience: float) -> str:
        where = ", ".join(f"{tp} at {self.reached[tp]} of {end}" for tp, end in behind.items())
        why = f"the {self._cluster.role} does not answer"
        why = f"Either {why}, or a transaction is open there" if self._committed_only else why.capitalize()
        return (
            f"{self._topic.name} on the {self._cluster} was not read to its end: nothing came for {patience:g} s "
            f"({where}). {why}"
        )

    # -- asking -------------------------------------------------------------------------------------------------

    def _look_aside(self) -> _Seen:
        return self._look(dict(self.reached), waits=False)

    def _look(self, read: Mapping[TopicPartition, int], waits: bool) -> _Seen:
        """Asks the cluster about the topic; waits a while for a broker that has just restarted.

        Args:
            read: Next offset to read, by partition; taken before the cluster is asked.
            waits: Whether to wait until each partition has a leader.
        """
        settle, of_all = Deadline(_SETTLE_SECONDS), self._starts_are_doubtful
        while True:
            found = self._described()
            # If the topic does not exist, asking for its ends would wait for leaders.
            ends = self._offsets(read if found else (), "latest", waits)
            known = {tp: at for tp, at in read.items() if tp not in ends.offline}
            beyond = {tp: ends.offsets.get(tp) for tp, at in known.items() if ends.offsets.get(tp, -1) < at}
            if found and not beyond:
                break
            if settle.expired():
                raise self._not_there() if not found or None in beyond.values() else self._cut_off(read, beyond)
            time.sleep(_POLL_SECONDS)
        new = self._partitions_of(found) - read.keys()
        starts = self._offsets({*read, *new} if of_all else new, "earliest", waits).offsets
        new_ends = self._offsets(starts.keys() & new, "latest", waits).offsets
        readable = self._offsets(read, "stable", waits).offsets if self._committed_only and not waits else ends.offsets
        return _Seen(found, {**ends.offsets, **new_ends}, readable, starts, of_all)

    def _described(self) -> TopicDescription | None:
        found = self._cluster.describe([self._topic.name]).get(self._topic.name)
        if found and found.topic_id != self._topic.topic_id:
            raise self._replaced(found)
        return found

    def _offsets(self, partitions: Collection[TopicPartition], which: Which, waits: bool) -> LedOffsets:
        if not waits:
            return self._cluster.led_offsets(partitions, which)
        return LedOffsets(self._cluster.offsets(partitions, which), {})

    def _partitions_of(self, topic: TopicDescription) -> set[TopicPartition]:
        numbers: Iterable[int] = range(topic.partitions)
        return {TopicPartition(topic.name, p) for p in numbers if self._only is None or p in self._only}

    def _not_there(self) -> Deleted:
        return Deleted(f"the topic {self._topic.name} on the {self._cluster} was deleted while it was followed")

    def _replaced(self, found: TopicDescription) -> Replaced:
        return Replaced(
            f"the topic {self._topic.name} on the {self._cluster} was deleted and created anew while it was followed "
            f"(topic id {self._topic.topic_id} is now {found.topic_id}). Nothing was committed since; start again to "
            "go by what there is now"
        )

    def _cut_off(self, read: Mapping[TopicPartition, int], beyond: Mapping[TopicPartition, int | None]) -> Replaced:
        where = ", ".join(f"{tp} up to {read[tp]}, ends at {end}" for tp, end in beyond.items())
        return Replaced(
            f"the topic {self._topic.name} on the {self._cluster} was cut off: read were {where}. What it holds cannot "
            "be trusted to follow on what was read"
        )
