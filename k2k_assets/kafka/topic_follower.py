"""Follows a topic: each record once, from given offsets on; what cannot be read any more is told, never passed over.

```
 somebody waits for the end:  ends ── asks ──> read_until
 nobody waits:                refresh <── asks in a thread, when nothing has come for long or the reader has failed
```

What is asked is the same in both cases: whether the topic is the one that was followed, where it ends, and, where that
is in doubt, where it begins.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, K2KError, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription, Which
from k2k_assets.kafka.end_probe import EndProbe
from k2k_assets.kafka.leaders import LedOffsets, offsets_where_led
from k2k_assets.kafka.log_reader import LogReader
from k2k_assets.kafka.messages import Message

log = logging.getLogger("k2k.kafka")

# How long a broker that has just come back has to find what it held.
_SETTLE_SECONDS = 5.0
_POLL_SECONDS = 0.1


class TopicLost(Refused):
    """A topic is not there as it was followed."""


class Deleted(TopicLost):
    """It is not there; a broker that is starting may not know it yet."""


class Replaced(TopicLost):
    """It is not the one that was followed any more, and never will be again."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a cluster said of a topic.

    Attributes:
        topic: Its description.
        ends: High watermarks of the partitions that have a leader.
        readable: As far as can be read now, of those that were read.
        starts: Log starts of new partitions; of all, if they were in doubt.
        is_sure_of_starts: Whether they are those of all.
    """

    topic: TopicDescription
    ends: Mapping[TopicPartition, int]
    readable: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    is_sure_of_starts: bool


def await_topic(cluster: Cluster, name: str) -> TopicDescription:
    """Describes a topic that is there; a broker that has just come back may not know it yet.

    Raises:
        Deleted: It is not there.
    """
    settle = Deadline(_SETTLE_SECONDS)
    while not (found := cluster.describe([name]).get(name)):
        if settle.expired():
            raise Deleted(f"the topic {name} does not exist on the {cluster}")
        time.sleep(_POLL_SECONDS)
    return found


class TopicFollower:
    """A topic, followed with a consumer that is assigned, never subscribed. To be used by one thread at a time.

    Args:
        topic: Its description: the follower refuses it as soon as it is another one.
        cluster: Where it is.
        properties: Consumer settings, librdkafka names.
        committed_only: Whether to read committed records only.
        starts: Next offset to read, by partition; partitions that are not named are read from their log start.
        only: Partitions to read; None: all, also those that it gets later.
        clock: Seconds that only rise.

    Raises:
        Replaced: It ends before an offset that is to be read next.
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
        self._probe = EndProbe(self._look_aside, clock)
        wanted = {tp: (starts or {}).get(tp.partition, 0) for tp in self._partitions_of(topic)}
        seen = self._look(wanted, waits=True)
        self._reader = LogReader(properties, self._from_log_starts(wanted, seen), committed_only, follow=True)
        self._topic, self._starts_are_doubtful = seen.topic, False

    @property
    def topic(self) -> TopicDescription:
        """What is followed."""
        return self._topic

    @property
    def reached(self) -> Mapping[TopicPartition, int]:
        """Next offset to read, by partition."""
        return self._reader.reached

    def ends(self) -> Mapping[TopicPartition, int]:
        """High watermarks: the ends with what open transactions have written. New partitions are among them.

        Raises:
            TopicLost: It is another topic by now, was cut off, or is not there.
            ClusterUnreachable: The cluster does not answer.
        """
        seen = self._look(dict(self.reached), waits=True)
        self._adopt(seen)
        return seen.ends

    def read_until(self, ends: Mapping[TopicPartition, int], patience: float) -> Iterator[list[Message]]:
        """Batches of records until each partition was read up to its end.

        Args:
            ends: High watermarks.
            patience: Seconds without a record after which it is given up: a transaction hangs, or nobody answers.

        Raises:
            ClusterUnreachable: Given up.
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
                deadline, late = Deadline(patience), False  # what is done with a batch takes none of it

    def catch_up(self, patience: float) -> Iterator[list[Message]]:
        """Batches of records up to the ends as they are now; arguments and errors as those of `read_until`, `ends`."""
        yield from self.read_until(self.ends(), patience)

    def refresh(self, timeout: float = 0.0) -> list[Message]:
        """The records that are there; waits for one, and for nothing else, up to `timeout` seconds.

        Raises:
            TopicLost: As `ends`, once it has been found out.
            ClusterUnreachable: The cluster does not let it read.
        """
        self._take_answer()
        return self._poll(timeout)

    def take_lost(self) -> list[tuple[int, int, int]]:
        """Records deleted before they were read, told once: partition, first offset, offset after the last."""
        lost, self._lost = self._lost, []
        return lost

    def log_starts(self) -> dict[int, int]:
        """First offset that there is, by partition."""
        return {tp.partition: start for tp, start in self._cluster.offsets(self.reached, "earliest").items()}

    def close(self) -> None:
        """Lets go of the client."""
        self._reader.close()

    # -- reading ------------------------------------------------------------------------------------------------

    def _poll(self, timeout: float) -> list[Message]:
        try:
            batch = self._reader.poll(timeout)
        except ClusterUnreachable:
            self._starts_are_doubtful = True  # what was to be read next may be deleted
            self._probe.ask()
            raise
        if batch:
            self._probe.heard()
        return batch

    def _take_answer(self) -> None:
        """A client may stand still without a word."""
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
        self._topic = seen.topic
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
        """Asks what there is now; a broker that has just come back may still look for it.

        Args:
            read: Next offset to read, by partition, before it is asked.
            waits: Whether each partition has to have a leader.
        """
        settle, of_all = Deadline(_SETTLE_SECONDS), self._starts_are_doubtful
        while True:
            found = self._described()
            # A topic that is not there would be waited for as one whose partitions have no leader.
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
            return offsets_where_led(self._cluster, partitions, which)
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
