"""Live progress from the commit topic and the source's offsets, because a running Spark task reports nothing itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from k2k_assets.control.commit_log import CommitLog, notes_of, records_of
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.newest_commits import NewestCommits
from k2k_assets.control.pause_records import Pause
from k2k_assets.control.stop_notes import StopNote, StopNotes
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.stops.commands import find_hanging_command
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.leaders import END_UNKNOWN, ends_of_each_topic
from k2k_assets.kafka.topic_follower import TopicFollower, await_topic
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.source_looks import SourceLooks

log = logging.getLogger("k2k.replication")

# An open transaction on the source is normal for seconds; after a minute the progress names it.
HELD_WARNING_SECONDS = 60.0
OLD_SECONDS = 60.0
"""An end that the source told longer ago is old."""


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of one source partition.

    Attributes:
        position: Next source offset to copy.
        readable_end: `Pipeline.readable_end` of the source: offset up to which records can be copied now;
            `END_UNKNOWN` if the source has not answered.
        high_watermark: High watermark of the source, behind the records of open transactions; `END_UNKNOWN` likewise.
        records: Records copied by this run.
        bytes: Value bytes copied by this run.
        runs: Runs written by this run.
        held_since: Since when an open source transaction blocks all further records, in monotonic seconds; None if
            none does.
        stopped: Stop reason of the partition, by this run or since it began; None if it is not stopped.
        form: How its records were brought last, see `CommitRecord.form`; empty if none were.
        is_end_old: Whether the source has told both ends long ago: they say nothing of what waits there now.
        looks: The looks at `readable_end`; None before the first one.
    """

    position: int
    readable_end: int
    high_watermark: int
    records: int = 0
    bytes: int = 0
    runs: int = 0
    held_since: float | None = None
    stopped: StopReason | None = None
    form: str = ""
    is_end_old: bool = False
    looks: SourceLooks | None = None

    @property
    def lag(self) -> int:
        """Source offsets that could be copied now."""
        return max(0, self.readable_end - self.position)

    @property
    def is_end_known(self) -> bool:
        """Whether the source has told the end, and not long ago."""
        return self.readable_end != END_UNKNOWN and not self.is_end_old


def longest_waits(
    partitions: Mapping[TopicPartition, PartitionProgress], now: float
) -> dict[TopicPartition, float | None]:
    """Seconds that a record of each partition has waited at most; None where that is not known."""
    return {tp: part.looks.longest_wait(now) if part.looks else None for tp, part in partitions.items()}


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    Attributes:
        partitions: Progress by source partition.
        started: Begin of the run, monotonic seconds.
        paused: Paused source topics.
        silence: Seconds since the target was heard of, as `TopicFollower.silence`.
    """

    partitions: Mapping[TopicPartition, PartitionProgress]
    started: float
    paused: Mapping[str, Pause] = field(default_factory=dict)
    silence: float = 0.0


class OwnCommit(NamedTuple):
    """A commit record of this run.

    Attributes:
        record: The record.
        before: The previous record of the same generation and partition. The counters in records are totals, so the
            difference to it is what this commit copied.
    """

    record: CommitRecord
    before: CommitRecord | None


class ProgressReader:
    """Follows the progress of a run.

    Args:
        pipeline: Names the commit topic.
        cluster_id: Source cluster id.
        source: The source, which is asked for its ends.
        target: The cluster of the commit topic.
        partitions: The partitions to follow.
        clock: Monotonic seconds.

    Attributes:
        starts: Position of each partition when the run began.
        set_by_hand: Partitions whose newest commit record is an override, with its generation.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        cluster_id: str,
        source: Cluster,
        target: Cluster,
        partitions: Iterable[TopicPartition],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._identity = (pipeline.group, cluster_id)
        self._source = source
        self._which = pipeline.readable_end
        self._started = clock.monotonic()
        self._newest: NewestCommits[TopicPartition] = NewestCommits()
        # The counters in commit records restart with each generation, and a run may have several.
        self._by_generation: NewestCommits[tuple[TopicPartition, int]] = NewestCommits()
        self._generations: set[int] = set()
        self.starts: dict[TopicPartition, int] = {}
        self.set_by_hand: dict[TopicPartition, int] = {}
        self._warned: set[TopicPartition] = set()
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self._told: dict[TopicPartition, float] = {}
        self._own: list[OwnCommit] = []
        self._notes = StopNotes()
        self._own_notes: list[StopNote] = []
        self.follow(partitions)
        topic = await_topic(target, pipeline.coordination.commit.topic)
        ends = target.offsets([TopicPartition(topic.name, p) for p in range(topic.partitions)], "stable")
        self._follower = TopicFollower(
            topic,
            target,
            pipeline.client_properties("target", "consumer"),
            committed_only=True,
            starts={tp.partition: end for tp, end in ends.items()},
            clock=clock.monotonic,
        )

    @property
    def newest(self) -> Mapping[TopicPartition, CommitRecord]:
        """The newest commit record of each partition, as far as it was read."""
        return self._newest.records

    @property
    def noted(self) -> Mapping[TopicPartition, StopNote]:
        """Stopped partitions without a position, with the note of the stop, as far as it was read."""
        return {tp: note for tp, note in self._notes.notes.items() if tp not in self.newest}

    def follow(self, partitions: Iterable[TopicPartition]) -> None:
        """Follows these partitions too, and no others of their topics: one created anew may have fewer."""
        wanted = set(partitions)
        topics = {tp.topic for tp in wanted}
        for tp in [tp for tp in self._partitions if tp.topic in topics and tp not in wanted]:
            del self._partitions[tp]
        for tp in sorted(wanted - self._partitions.keys()):
            self._partitions[tp] = PartitionProgress(0, END_UNKNOWN, END_UNKNOWN)

    def begin(self, commit_log: CommitLog) -> None:
        """Takes in the commit log from before the run."""
        for tp, record in commit_log.positions.items():
            self._take(record)
            self.starts.setdefault(tp, record.position)
        for tp, note in commit_log.noted.items():
            self._notes.take(tp, note)

    def counts_for(self, generation: int) -> None:
        """Counts the commits of this generation as commits of the run."""
        self._generations.add(generation)

    def read(self) -> list[OwnCommit]:
        """Takes in the commit records that have arrived; returns those of this run. It does not wait.

        Records that it took in before it raised an error are returned by the next call.

        Raises:
            ClusterUnreachable: The target refuses the read.
            TopicLost: The commit topic was deleted, created anew, or cut off.
        """
        while batch := self._follower.refresh():
            for record in records_of(batch, *self._identity):
                counted = self._by_generation.records
                before = counted.get((record.source, record.generation))
                self.apply(record)
                if counted.get((record.source, record.generation)) is record:
                    self._own.append(OwnCommit(record, before))
            for source, note in notes_of(batch, *self._identity):
                self._take_note(source, note)
        own, self._own = self._own, []
        return own

    def new_stops(self) -> list[StopNote]:
        """The stops of this run without a position that `read` has taken in since the last call; each once."""
        stops, self._own_notes = self._own_notes, []
        return stops

    def _take_note(self, source: TopicPartition, note: StopNote | None) -> None:
        is_new = self._notes.take(source, note)
        if is_new and note is not None and note.generation in self._generations and source not in self.newest:
            self._own_notes.append(note)

    def apply(self, record: CommitRecord) -> None:
        """Takes in one commit record."""
        self._take(record)
        if record.generation in self._generations:
            self._by_generation.take((record.source, record.generation), record)
            if record.kind == "start":
                self.starts.setdefault(record.source, record.position)

    def _take(self, record: CommitRecord) -> None:
        if self._newest.take(record.source, record):
            self.set_by_hand.pop(record.source, None)
            if record.kind == "override":
                self.set_by_hand[record.source] = record.generation

    def refresh(self) -> Progress:
        """Asks the source for its ends and returns the progress; partitions without an answer keep their last ends."""
        now = self._clock.monotonic()
        readable, without_end = ends_of_each_topic(self._source, list(self._partitions), self._which, patience=0)
        asked = [tp for tp in self._partitions if tp not in without_end]
        high, without_high = ends_of_each_topic(self._source, asked, "latest", patience=0)
        for tp in asked:
            if tp not in without_high:
                before, self._told[tp] = self._partitions[tp], now
                self._partitions[tp] = self._progress(
                    tp, before, readable.get(tp, END_UNKNOWN), high.get(tp, END_UNKNOWN), now
                )
        return self.current()

    def current(self) -> Progress:
        """The progress with the newest positions, and the ends of the last refresh."""
        return Progress({tp: self._counted(tp, p) for tp, p in self._partitions.items()}, self._started)

    def as_seen_now(self) -> Progress:
        """The progress now, with which ends are old, and for how long the target has been silent."""
        since = self._clock.monotonic() - OLD_SECONDS
        found = dict(self.current().partitions)
        for tp in found.keys() - {tp for tp, told in self._told.items() if told > since}:
            found[tp] = replace(found[tp], is_end_old=True)
        return Progress(found, self._started, silence=self._follower.silence)

    def close(self) -> None:
        """Closes the client."""
        self._follower.close()

    def _counted(self, tp: TopicPartition, progress: PartitionProgress) -> PartitionProgress:
        newest, counted = self.newest.get(tp), self._by_generation.records
        said = newest or self._notes.notes.get(tp)
        mine = [counted[tp, g] for g in self._generations if (tp, g) in counted]
        return replace(
            progress,
            position=newest.position if newest else progress.position,
            records=sum(r.records for r in mine),
            bytes=sum(r.bytes_ for r in mine),
            runs=sum(r.runs for r in mine),
            stopped=said.reason if said and self._is_since_begin(said.generation) else None,
            form=newest.form if newest else "",
        )

    def _is_since_begin(self, generation: int) -> bool:
        """Whether a generation is of this run, or newer: a stop of an older one is only tried again."""
        return bool(self._generations) and generation >= min(self._generations)

    def _progress(
        self, tp: TopicPartition, before: PartitionProgress, readable: int, high: int, now: float
    ) -> PartitionProgress:
        newest = self.newest.get(tp)
        held = high > readable and newest is not None and newest.position >= readable
        since = None
        if held:
            since = before.held_since if before.held_since and before.readable_end == readable else now
            if now - since >= HELD_WARNING_SECONDS and tp not in self._warned:
                self._warned.add(tp)
                log.warning(
                    "%s on the source is held at offset %d by an open transaction for %.0f s (%s behind it). "
                    "Find it with %s",
                    tp, readable, now - since, plural(high - readable, "offset waits", "offsets wait"),
                    find_hanging_command(tp),
                )  # fmt: skip
        else:
            self._warned.discard(tp)
        position = newest.position if newest else before.position
        looks = before.looks.then(position, readable, now) if before.looks else SourceLooks(now, readable)
        return replace(before, readable_end=readable, high_watermark=high, held_since=since, looks=looks)
