"""Reads some records before and after each of many positions of a cluster, with one plain consumer."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.offset_ranges import ReadStalled
from k2k_assets.verification.groups.match import RecordWindow, Seen

BEFORE, AFTER = 24, 48
"""Number of records to read on each side of a position."""
_STALL_SECONDS = 30.0
# Distances in offsets to go back for the records before; the next one is tried if there were too few records.
_STEPS = (32, 256, 4096, 65_536)
# Records to read for one stretch, if nearly all of them are left out.
_MOST_READ = 70_000
_SETTINGS: dict[str, object] = {
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,
    "fetch.error.backoff.ms": 100,
    # Small fetches, because only some records of each are used.
    "fetch.message.max.bytes": 65_536,
}
# Retention has taken the records; or their batch is damaged, which the copy stops at, or was told to skip.
_NOT_THERE = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
    }
)

At = tuple[TopicPartition, int]


def read_windows(
    cluster: Cluster,
    properties: Mapping[str, object],
    positions: Collection[At],
    ends: Mapping[TopicPartition, int],
    digest: Callable[[Message], bytes | None],
    compacted: Collection[str],
    most: tuple[int, int] = (BEFORE, AFTER),
) -> dict[At, RecordWindow]:
    """Reads the window of each position.

    Args:
        cluster: The cluster.
        properties: Its consumer settings, librdkafka names, with the isolation level.
        positions: Partitions and offsets.
        ends: Ends of the partitions, beyond which nothing is read; partitions without one are left out.
        digest: Computes the digest of a record; None leaves it out.
        compacted: Topics in which compaction may have removed records.
        most: Number of records to read before and after each position.

    Raises:
        ReadStalled: Nothing arrived for half a minute, or a partition cannot be read.
        ClusterUnreachable: The cluster does not answer.
    """
    wanted = sorted({(tp, offset) for tp, offset in positions if tp in ends})
    starts = cluster.led_offsets({tp for tp, _ in wanted}, "earliest").offsets
    wanted = [(tp, offset) for tp, offset in wanted if tp in starts]
    if not wanted:
        return {}
    with _Sweep(cluster, properties, digest) as sweep:
        found = {at: _Around(*at, starts[at[0]], ends[at[0]], *most) for at in wanted}
        sweep.read([job for around in found.values() for job in around.first_jobs()])
        while more := [job for around in found.values() if (job := around.next_job())]:
            sweep.read(more)
    return {at: around.window(at[0].topic in compacted) for at, around in found.items()}


@dataclass(slots=True)
class _Job:
    """A stretch to read: up to `end`, or up to `most` records, of at most `_MOST_READ`.

    `is_cut`: some of its records are not there, or cannot be read.
    """

    partition: TopicPartition
    start: int
    end: int
    most: int
    records: list[Seen] = field(default_factory=list)
    ended: bool = False
    is_cut: bool = False
    read: int = 0

    def take(self, offset: int, digest: bytes | None) -> bool:
        """Adds a record, unless it has no digest; returns whether it was the last one."""
        if offset >= self.end:
            self.ended = True
            return True
        if digest is not None and offset >= (self.records[-1].offset + 1 if self.records else self.start):
            self.records.append(Seen(offset, digest))
        self.read += 1
        self.ended = offset >= self.end - 1
        return self.ended or len(self.records) >= self.most or self.read >= _MOST_READ


@dataclass(slots=True)
class _Around:
    partition: TopicPartition
    position: int
    start: int
    end: int
    most_before: int
    most_after: int
    after: _Job | None = None
    before: _Job | None = None
    step: int = 0

    def first_jobs(self) -> list[_Job]:
        begin = max(self.position, self.start)
        if begin < self.end:
            self.after = _Job(self.partition, begin, self.end, self.most_after)
        return [job for job in (self.after, self.next_job()) if job]

    def next_job(self) -> _Job | None:
        """The next stretch, with a longer way back, if the last one had too few records; else None."""
        end = min(self.position, self.end)
        reached = self.before.start if self.before else end
        enough = self.before is not None and len(self.before.records) >= self.most_before
        if enough or reached <= self.start or self.step >= len(_STEPS):
            return None
        self.before = _Job(self.partition, max(self.start, end - _STEPS[self.step]), end, end)
        self.step += 1
        return self.before

    def window(self, compacted: bool) -> RecordWindow:
        jobs = [job for job in (self.before, self.after) if job]
        return RecordWindow(
            self.position,
            tuple(self.before.records[-self.most_before :]) if self.before else (),
            tuple(self.after.records) if self.after else (),
            whole=self.start <= self.position and not compacted and not any(job.is_cut for job in jobs),
            ended=self.after.ended if self.after else True,
            from_first=self.start == 0 and (self.before is None or (self.before.start == 0 and self.before.ended)),
        )


class _Sweep:
    """Reads jobs: jobs of one partition one after the other, jobs of different partitions together."""

    def __init__(
        self, cluster: Cluster, properties: Mapping[str, object], digest: Callable[[Message], bytes | None]
    ) -> None:
        self._cluster = cluster
        self._properties = properties
        self._digest = digest
        self._consumer = clients.consumer(properties, _SETTINGS)
        try:
            clients.know_cluster(self._consumer, cluster.timeout)
        except KafkaException as error:
            self._consumer.close()
            raise clients.unreachable(cluster.role, properties, clients.error_of(error).str()) from None

    def read(self, jobs: Iterable[_Job]) -> None:
        waiting: dict[TopicPartition, deque[_Job]] = defaultdict(deque)
        for job in jobs:
            waiting[job.partition].append(job)
        running = {tp: of_partition.popleft() for tp, of_partition in waiting.items()}
        self._consumer.assign([_at(job) for job in running.values()])
        deadline = Deadline(_STALL_SECONDS)
        while running:
            message = self._consumer.poll(0.2)
            if message is None:
                if deadline.expired():
                    raise ReadStalled(f"{self._cluster}: nothing of {next(iter(running))} arrived in time")
                continue
            deadline = Deadline(_STALL_SECONDS)
            tp = TopicPartition(message.topic(), message.partition())
            if tp in running and self._ends(running[tp], message):
                del running[tp]
                self._consumer.incremental_unassign([KafkaTopicPartition(*tp)])
                if waiting[tp]:
                    running[tp] = waiting[tp].popleft()
                    self._consumer.incremental_assign([_at(running[tp])])

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> _Sweep:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ends(self, job: _Job, message: Message) -> bool:
        error = message.error()
        if error is None:
            return job.take(message.offset(), self._digest(message))
        if error.code() == KafkaError._PARTITION_EOF:
            job.ended = True
            return True
        if error.code() in _NOT_THERE:
            job.is_cut = True
            return True
        if not error.retriable() and not clients.is_unreachable(error):
            raise ReadStalled(f"{self._cluster}: {job.partition} at {job.start}: {error.str()} ({error.name()})")
        return False


def _at(job: _Job) -> KafkaTopicPartition:
    return KafkaTopicPartition(job.partition.topic, job.partition.partition, job.start)
