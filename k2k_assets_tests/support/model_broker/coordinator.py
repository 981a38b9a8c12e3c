"""The coordinator of transactions as a broker has it, in both versions: a shared epoch, or one for each (KIP-890).

The rules are those of Kafka's `TransactionCoordinator`; a test compares them with a real broker.

An end is prepared first: then it is answered, and the markers are written later. What comes meanwhile is told to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import NamedTuple

INVALID_STATE, UNKNOWN_PRODUCER, CONCURRENT, FENCED, ABORTABLE = 48, 49, 51, 90, 120
EACH_ITS_EPOCH = 2
"""The version of transactions by which each one has an epoch of its own."""
_LAST_EPOCH = 2**15 - 1
_FIRST_PRODUCER = 1000

Partition = tuple[str, int]
Mark = Callable[[Partition, int, int, bool], None]
"""Writes a marker: partition, producer id, epoch, whether it commits."""


class State(Enum):
    """Of a transactional id."""

    EMPTY = "nothing yet"
    ONGOING = "a transaction is open"
    PREPARED = "it is decided how it ends"
    COMPLETE = "it has ended"


class Producer(NamedTuple):
    """A producer id and an epoch; of nobody in an answer with an error."""

    producer_id: int
    epoch: int


NOBODY = Producer(-1, -1)


@dataclass(slots=True)
class Holder:
    """What is known of a transactional id.

    Attributes:
        producer: Who holds it.
        state: Where its transaction is.
        commits: How it was decided, or has ended.
        partitions: Those that have joined.
        following: Who holds it behind the end; None: the one who does now.
        before: Producer id before the epochs were used up.
        left: After so many requests the markers are written.
    """

    producer: Producer
    state: State = State.EMPTY
    commits: bool = False
    partitions: set[Partition] = field(default_factory=set)
    following: Producer | None = None
    before: int = -1
    left: int = 0

    def refused(self, producer: Producer) -> int:
        """Why a partition cannot join, or belong to, the transaction of a producer; 0 if it may."""
        if self.producer.producer_id != producer.producer_id:
            return UNKNOWN_PRODUCER
        if self.producer.epoch != producer.epoch:
            return FENCED
        return CONCURRENT if self.state is State.PREPARED else 0


class ModelCoordinator:
    """The transactional ids of a cluster.

    Args:
        mark: Writes markers.
        first_epoch: Of a new transactional id.

    Attributes:
        holders: By transactional id.
        ending: So many further requests are answered before the markers of an end are written.
    """

    def __init__(self, mark: Mark, first_epoch: int = 0) -> None:
        self.holders: dict[str, Holder] = {}
        self.ending = 0
        self._mark, self._first_epoch = mark, first_epoch
        self._new_ids = count(_FIRST_PRODUCER)

    def tick(self) -> None:
        """Notes that a request has come: ends that are prepared come nearer."""
        for holder in self.holders.values():
            if holder.state is State.PREPARED:
                holder.left -= 1
                self._complete_if_due(holder)

    def init(self, name: str) -> tuple[int, Producer]:
        """Gives the id to a new producer, once the transaction of the former one is aborted."""
        holder = self.holders.get(name)
        if holder is None:
            holder = self.holders[name] = Holder(Producer(next(self._new_ids), self._first_epoch))
            return 0, holder.producer
        if holder.state is State.PREPARED:
            return CONCURRENT, NOBODY
        if holder.state is State.ONGOING:
            self.time_out(name)
            return CONCURRENT, NOBODY
        producer_id, epoch = holder.producer
        if epoch >= _LAST_EPOCH - 1:
            holder.producer, holder.before = Producer(next(self._new_ids), 0), producer_id
        else:
            holder.producer, holder.before = Producer(producer_id, epoch + 1), -1
        holder.state = State.EMPTY
        return 0, holder.producer

    def give_id(self) -> Producer:
        """Gives a producer id to who writes outside transactions."""
        return Producer(next(self._new_ids), 0)

    def join(self, name: str, producer: Producer, partitions: Iterable[Partition]) -> int:
        """Adds partitions to the transaction; the first ones begin it."""
        holder = self.holders.get(name)
        if holder is None:
            return UNKNOWN_PRODUCER
        if error := holder.refused(producer):
            return error
        new = set(partitions)
        if holder.state is State.ONGOING and new <= holder.partitions:
            return 0
        if holder.state is not State.ONGOING:
            holder.partitions.clear()
        holder.state = State.ONGOING
        holder.partitions |= new
        return 0

    def verify(self, name: str, producer: Producer, partition: Partition) -> int:
        """Whether a partition has joined the transaction of a producer."""
        holder = self.holders.get(name)
        if holder is None:
            return UNKNOWN_PRODUCER
        if error := holder.refused(producer):
            return error
        return 0 if holder.state is State.ONGOING and partition in holder.partitions else ABORTABLE

    def end(self, name: str, producer: Producer, commits: bool, version: int) -> tuple[int, Producer]:
        """Ends the transaction.

        Returns:
            The error, and who goes on.
        """
        holder = self.holders.get(name)
        if holder is None:
            return UNKNOWN_PRODUCER, NOBODY
        error, ends = (_checked_of_each if version >= EACH_ITS_EPOCH else _checked)(holder, producer, commits)
        if ends:
            self._prepare(holder, commits, takes_epoch=version >= EACH_ITS_EPOCH)
            return 0, holder.following or holder.producer
        return (error, NOBODY) if error else (0, holder.following or holder.producer)

    def time_out(self, name: str) -> None:
        """Aborts an open transaction, and fences its producer: it was too slow, or another one wants the id."""
        holder = self.holders[name]
        if holder.state is State.ONGOING:
            producer_id, epoch = holder.producer
            holder.producer = Producer(producer_id, epoch + 1)
            self._prepare(holder, commits=False, takes_epoch=False)

    def _prepare(self, holder: Holder, commits: bool, takes_epoch: bool) -> None:
        producer_id, epoch = holder.producer
        holder.following, holder.before = None, -1
        if holder.state is not State.ONGOING:
            holder.partitions.clear()
        if takes_epoch:
            if epoch == _LAST_EPOCH - 1:
                holder.following = Producer(next(self._new_ids), 0)
            holder.producer = Producer(producer_id, min(epoch + 1, _LAST_EPOCH))
        holder.state, holder.commits, holder.left = State.PREPARED, commits, self.ending
        self._complete_if_due(holder)

    def _complete_if_due(self, holder: Holder) -> None:
        if holder.left > 0:
            return
        for partition in sorted(holder.partitions):
            self._mark(partition, *holder.producer, holder.commits)
        holder.partitions.clear()
        holder.state = State.COMPLETE
        if holder.following is not None:
            holder.before, holder.producer, holder.following = holder.producer.producer_id, holder.following, None


def _checked(holder: Holder, producer: Producer, commits: bool) -> tuple[int, bool]:
    """The error of an end where transactions share an epoch, and whether it ends one."""
    if holder.producer.producer_id != producer.producer_id:
        return UNKNOWN_PRODUCER, False
    if holder.producer.epoch != producer.epoch:
        return FENCED, False
    if holder.state is State.ONGOING:
        return 0, True
    if holder.state is State.EMPTY or holder.commits != commits:
        return INVALID_STATE, False
    return (CONCURRENT if holder.state is State.PREPARED else 0), False


def _checked_of_each(holder: Holder, producer: Producer, commits: bool) -> tuple[int, bool]:
    """The same where each has its own: a request that comes again is told by its epoch."""
    is_used_up = (
        holder.before == producer.producer_id and producer.epoch == _LAST_EPOCH - 1 and not holder.producer.epoch
    )
    comes_again = holder.producer.epoch == producer.epoch + 1
    is_present = holder.producer.epoch == producer.epoch
    if holder.producer.producer_id != producer.producer_id and not is_used_up:
        return UNKNOWN_PRODUCER, False
    may = {
        State.EMPTY: is_present,
        State.ONGOING: is_present,
        State.PREPARED: comes_again,
        State.COMPLETE: comes_again or is_used_up or is_present,
    }
    if not may[holder.state]:
        return FENCED, False
    if holder.state is State.ONGOING:
        return 0, True
    if holder.state is State.PREPARED:
        return (CONCURRENT if holder.commits == commits else INVALID_STATE), False
    if holder.state is State.COMPLETE and (comes_again or is_used_up):
        return (0 if holder.commits == commits else INVALID_STATE), False
    # Nothing is open: an abort may end nothing, and takes an epoch all the same.
    return (INVALID_STATE, False) if commits else (0, True)
