"""Source and sink of the copy loop in memory, with a clock that moves only when the loop waits.

They keep to `k2k_assets.transport.interface`; what the loop did can be read from `FakeSink.transactions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.chunk import Chunk, Records, Sent
from k2k_assets.transport.errors import Fenced, Restart
from k2k_assets.transport.foresight import Foresight
from k2k_assets.transport.interface import Delivery, Polled, Position
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.fake_records import ListRecords, WholeBatch

BY_RECORD = Capabilities(needs_decoding=True, keeps_batches=False, reports_batches=False, knows_commit_outcome=False)
BY_BATCH = Capabilities(needs_decoding=False, keeps_batches=True, reports_batches=True, knows_commit_outcome=True)


class Arrival(NamedTuple):
    """A record that the source has from a moment on."""

    at: float
    source: TopicPartition
    offset: int


class FakeSource:
    """A source whose records arrive in time.

    Args:
        clock: Moved on by polls that wait, and by `poll_seconds` with each poll.
        arrivals: What arrives; offsets of a partition rise.
        ends: High watermark of each partition, past trailing markers; by default the last offset + 1.
        poll_seconds: How long each poll takes.
        whole_batches: Whether records come undecoded.

    Attributes:
        unreadable: Offset of a record of a partition whose headers cannot be read.
        first_epoch: Leader epoch of the first record of each chunk; that of the last is 0.
        epochs: What the next poll tells of leader epochs.
        left_out: How many records a poll passed over.
        knows_more: Whether it is known to have more, which has not arrived.
        silent_seconds: How long an assignment waits for brokers.
    """

    def __init__(
        self,
        clock: FakeClock,
        arrivals: Iterable[Arrival],
        ends: Mapping[TopicPartition, int] | None = None,
        poll_seconds: float = 0.0,
        whole_batches: bool = False,
    ) -> None:
        self.assigned: dict[TopicPartition, Position] = {}
        self.ends = dict(ends or {})
        self.limits: list[int] = []
        self.unreadable: dict[TopicPartition, int] = {}
        self.first_epoch = 0
        self.epochs: dict[TopicPartition, Position] = {}
        self.left_out: Callable[[], int] = lambda: 0
        self.knows_more: Callable[[], bool] = lambda: False
        self.silent_seconds = 0
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._whole_batches = whole_batches
        self._all = sorted(arrivals, key=lambda a: (a.at, a.source, a.offset))
        self._waiting = self._all
        self._next: dict[TopicPartition, int] = {}
        self._told: set[TopicPartition] = set()

    def assign(
        self, positions: Mapping[TopicPartition, Position], keep_waiting: Callable[[], None] | None = None
    ) -> None:
        for _ in range(self.silent_seconds):
            self._clock.advance(1.0)
            if keep_waiting is not None:
                keep_waiting()
        self.assigned = dict(positions)
        self._next = {tp: at.offset for tp, at in positions.items()}
        self._waiting = [a for a in self._all if a.source in positions and a.offset >= positions[a.source].offset]
        self._told = set()

    def poll(self, limit: int, timeout: float) -> Polled:
        self.limits.append(limit)
        self._clock.advance(self._poll_seconds)
        polled = self._ready(limit)
        if not (polled.chunks or polled.ends or polled.epochs or polled.passed):
            next_arrival = min((a.at for a in self._waiting), default=float("inf"))
            self._clock.advance(max(0.0, min(timeout, next_arrival - self._clock.now)))
            polled = self._ready(limit)
        return polled

    def gather(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def close(self) -> None:
        pass

    def _ready(self, limit: int) -> Polled:
        taken: dict[TopicPartition, list[int]] = {}
        left: list[Arrival] = []
        for arrival in self._waiting:
            if arrival.at <= self._clock.now and limit > 0:
                taken.setdefault(arrival.source, []).append(arrival.offset)
                limit -= 1
            else:
                left.append(arrival)
        self._waiting = left
        polled = Polled([Chunk(tp, self._records(tp, offsets)) for tp, offsets in taken.items()])
        polled.passed = self.left_out()
        polled.has_more = self.knows_more()
        polled.epochs, self.epochs = self.epochs, {}
        for tp, offsets in taken.items():
            self._next[tp] = offsets[-1] + 1
            self._told.discard(tp)
        for tp in set(self.assigned) - self._told:
            if not any(a.source == tp and a.at <= self._clock.now for a in left):
                self._told.add(tp)
                polled.ends[tp] = self._end(tp)
        return polled

    def _records(self, tp: TopicPartition, offsets: list[int]) -> Records:
        records = ListRecords(offsets, unreadable=self.unreadable.get(tp), first_epoch=self.first_epoch)
        return WholeBatch(records) if self._whole_batches else records

    def _end(self, tp: TopicPartition) -> int:
        """The high watermark as it is now."""
        all_there = not any(a.source == tp for a in self._waiting)
        return max(self._next[tp], self.ends.get(tp, 0)) if all_there else self._next[tp]


class Control(NamedTuple):
    """A control record in a transaction."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None


@dataclass
class Transaction:
    """What the loop put into one transaction."""

    at: float
    chunks: list[Chunk] = field(default_factory=list)
    aside: list[Chunk] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)

    @property
    def offsets(self) -> dict[TopicPartition, list[int]]:
        """The source offsets in it."""
        found: dict[TopicPartition, list[int]] = {}
        for chunk in self.chunks:
            found.setdefault(chunk.source, []).extend(chunk.records.offsets())
        return found

    def to(self, topic: str) -> list[Control]:
        """The control records for a topic."""
        return [control for control in self.controls if control.topic == topic]


class Placed(NamedTuple):
    """A record on the target that a reader of committed ones sees."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass
class FakeTarget:
    """What sinks have written.

    Attributes:
        transactions: Those that were committed.
        log_ends: Where the next record of a topic and partition goes.
        holders: The newest sink of each transactional id.
    """

    transactions: list[Transaction] = field(default_factory=list)
    log_ends: dict[tuple[str, int], int] = field(default_factory=dict)
    holders: dict[str, object] = field(default_factory=dict)

    def append(self, topic: str, partition: int, count: int) -> int:
        """Takes offsets for records, or for a marker; returns the first."""
        first = self.log_ends.get((topic, partition), 0)
        self.log_ends[topic, partition] = first + count
        return first

    def read(self, topic: str) -> list[Placed]:
        """The committed records of partition 0."""
        return [
            Placed(delivery.first + index, key, value)
            for transaction in self.transactions
            for chunk, delivery in zip(transaction.chunks, transaction.deliveries, strict=True)
            if (chunk.target_topic, delivery.partition) == (topic, 0)
            for index, (key, value) in enumerate(zip(chunk.columns().keys(), chunk.columns().values(), strict=True))
        ]


class FakeSink:
    """A transactional target: one offset a record, and one a commit marker on each partition that was touched.

    Args:
        clock: Dates the transactions.
        fail_at_commit: Which commit fails, from 1; none if 0.
        foresees: Whether it tells where chunks will go, once a transaction has shown it.
        raises: Whether it writes under producer ids whose epochs it raises.
        target: Where to write; one of its own by default.
        transactional_id: Of which only the newest sink may write.
    """

    def __init__(
        self,
        clock: FakeClock,
        fail_at_commit: int = 0,
        foresees: bool = False,
        target: FakeTarget | None = None,
        transactional_id: str = "id",
        raises: bool = False,
    ) -> None:
        self._raises = raises
        self.target = target or FakeTarget()
        self.transactions, self.log_ends = self.target.transactions, self.target.log_ends
        self.steps: list[str] = []
        self._id = transactional_id
        self._clock = clock
        self._fail_at = fail_at_commit
        self._current: Transaction | None = None
        self._unsettled: list[Delivery] = []
        self._foresees = foresees
        self._foresight = Foresight()
        self._foreseen: list[Delivery] | None = None
        self._came_true = True

    def open(self) -> None:
        self.target.holders[self._id] = self
        self.steps.append("open")

    def raise_epochs(
        self, former: Mapping[TopicPartition, ProducerIdentity | None]
    ) -> Mapping[TopicPartition, ProducerIdentity]:
        if not self._raises:
            return {}
        self.steps.append("raise_epochs")
        known = {tp: each or ProducerIdentity(number, -1) for number, (tp, each) in enumerate(former.items())}
        return {tp: ProducerIdentity(each.producer_id, each.epoch + 1) for tp, each in known.items()}

    def begin(self) -> None:
        assert self._current is None, "a transaction is open already"
        self._ensure_not_fenced()
        self._current = Transaction(self._clock.now)
        self.steps.append("begin")

    def write(self, chunk: Chunk) -> Sent:
        assert self._current is not None
        assert chunk.target_topic
        partition = chunk.target_partition or 0
        first = self.target.append(chunk.target_topic, partition, chunk.count)
        delivery = Delivery(Sent(chunk), partition, first, first + chunk.count - 1)
        self._current.chunks.append(chunk)
        self._current.deliveries.append(delivery)
        self._unsettled.append(delivery)
        self.steps.append("write")
        return delivery.sent

    def write_aside(self, chunk: Chunk) -> None:
        assert self._current is not None
        self._current.aside.append(chunk)
        self.steps.append("write_aside")

    def foresee(self) -> Sequence[Delivery] | None:
        self._foreseen = self._foresight.of(each.sent for each in self._unsettled) if self._foresees else None
        return self._foreseen

    def settle(self) -> Sequence[Delivery]:
        self.steps.append("settle")
        settled, self._unsettled = self._unsettled, []
        self._came_true = self._foreseen in (None, settled)
        self._foresight.learn(settled)
        return settled

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        assert self._current is not None
        self._current.controls.append(Control(topic, partition, key, value))
        self.steps.append("write_control")

    def commit(self) -> None:
        assert self._current is not None
        self.steps.append("commit")
        self._ensure_not_fenced()
        current, self._current = self._current, None
        if not self._came_true:
            raise Restart("the records did not go where it was foreseen")
        if self._fail_at == sum(step == "commit" for step in self.steps):
            raise Restart("the commit failed")
        for topic, partition in {(c.target_topic, c.target_partition or 0) for c in current.chunks}:
            self.target.append(topic, partition, 1)
        current.at = self._clock.now
        self.transactions.append(current)

    def close(self) -> None:
        self.steps.append("close")

    def _ensure_not_fenced(self) -> None:
        if self.target.holders.get(self._id, self) is not self:
            raise Fenced(f"{self._id} has a newer holder")


class FakeTransport:
    """Source and target in memory.

    Args:
        capabilities: What it declares; chunks come undecoded where whole batches are kept.

    Attributes:
        arrivals: What sources that are opened from now on have.
        ends: High watermarks of the source, past trailing markers.
        target: What was written.
    """

    def __init__(self, capabilities: Capabilities = BY_BATCH) -> None:
        self.capabilities = capabilities
        self.clock = FakeClock()
        self.arrivals: list[Arrival] = []
        self.ends: dict[TopicPartition, int] = {}
        self.target = FakeTarget()

    def open_source(self, buffer_bytes: int | None = None) -> FakeSource:
        return FakeSource(self.clock, self.arrivals, self.ends, whole_batches=self.capabilities.keeps_batches)

    def open_sinks(self, lone_writer: bool, batch_bytes: int) -> FakeSinks:
        return FakeSinks(self, lone_writer)

    def open_control_writer(self, transactional_id: str) -> FakeSink:
        return FakeSink(self.clock, target=self.target, transactional_id=transactional_id)

    def claim(self, transactional_id: str, timeout: float, step: str) -> None:
        self.open_control_writer(transactional_id).open()


class FakeSinks:
    """Sinks of one slot; nothing outlives them but what they have written."""

    def __init__(self, transport: FakeTransport, lone_writer: bool) -> None:
        self._transport = transport
        self._lone_writer = lone_writer

    def open_sink(self, transactional_id: str) -> FakeSink:
        transport = self._transport
        return FakeSink(transport.clock, 0, self._lone_writer, transport.target, transactional_id)

    def close(self, discard: bool) -> None:
        pass
