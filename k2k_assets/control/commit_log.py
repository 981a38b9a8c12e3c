"""Reads the commit topic, the only record of progress that slots trust."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from k2k_assets.control.commit_record import CommitRecord, is_other_kind, parse_key
from k2k_assets.control.foreign_records import foreign_hint
from k2k_assets.control.newest_commits import NewestCommits
from k2k_assets.control.stop_notes import StopNote, StopNotes, is_note, parse_note_key
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, K2KError, Refused
from k2k_assets.core.stops.commands import abort_command, find_hanging_command
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.positions import PositionUnreadable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.kafka.messages import Message
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.commit_log")


class CommitLogBlocked(K2KError):
    """The commit topic could not be read to its end in time."""


@dataclass(slots=True)
class CommitLog:
    """The positions of one group by the commit topic.

    Attributes:
        positions: The newest record of each source partition.
        unreadable: Under exactly-once, partitions whose newest record cannot be decoded, with the reason.
        passed_over: Whether a record of the group could not be decoded, so that the group has been here before.
        is_whole: Whether the topic was read to its end.
        incomplete: Whether the topic has lost records to retention: "no record" then does not mean "never copied".
        sequences_below: All sequences in records that were not read or not decoded are below this; 0 if all were read.
            It is the topic's length: each sequence stands for a commit, and each commit left a record in the topic.
        noted: Stopped partitions that are not in `positions`, with the note of the stop.
    """

    positions: dict[TopicPartition, CommitRecord] = field(default_factory=dict)
    unreadable: dict[TopicPartition, str] = field(default_factory=dict)
    passed_over: bool = False
    is_whole: bool = True
    incomplete: bool = False
    sequences_below: int = 0
    noted: dict[TopicPartition, StopNote] = field(default_factory=dict)

    @property
    def is_newest(self) -> bool:
        """Whether nothing newer than what is in `positions` may have been committed before it was read."""
        return self.is_whole and not self.passed_over

    @property
    def tells_all(self) -> bool:
        """Whether a partition that is not in `positions` has never been copied, unless it is in `unreadable`."""
        return self.is_whole and (not self.passed_over or bool(self.unreadable))

    @property
    def stopped(self) -> dict[TopicPartition, StopReason]:
        """Stopped partitions with their reasons, in order."""
        released = {tp: record.reason for tp, record in self.positions.items() if record.reason is not None}
        noted = {tp: note.reason for tp, note in self.noted.items()}
        unreadable = {tp: PositionUnreadable(tp, why) for tp, why in self.unreadable.items()}
        return dict(sorted({**released, **noted, **unreadable}.items()))

    @property
    def stopped_without_position(self) -> int:
        """Number of stopped partitions that have no position, or none that can be read."""
        return len({*self.noted, *self.unreadable})

    def by_topic(self) -> defaultdict[str, CommitLog]:
        """What it says of each topic, for who asks about many; nothing of a topic that it does not know."""
        found: defaultdict[str, CommitLog] = defaultdict(CommitLog)
        for tp, record in self.positions.items():
            found[tp.topic].positions[tp] = record
        for tp, why in self.unreadable.items():
            found[tp.topic].unreadable[tp] = why
        for tp, note in self.noted.items():
            found[tp.topic].noted[tp] = note
        return found

    def unreadable_reason(self, tp: TopicPartition) -> StopReason | None:
        """The stop reason of a partition whose newest record cannot be decoded; None for any other partition."""
        why = self.unreadable.get(tp)
        return PositionUnreadable(tp, why) if why else None


def read_commit_log(
    pipeline: Pipeline,
    source_cluster_id: str,
    target: Cluster,
    *,
    keep_waiting: Callable[[], None] | None = None,
    patience: float | None = None,
) -> CommitLog:
    """Reads all partitions of the commit topic up to their high watermarks.

    It asks for the ends now, and for high watermarks, not last stable offsets: so every commit of a writer that is
    fenced by now lies below them. It waits for transactions that other writers hold open in the topic.

    Args:
        pipeline: Names topic, group, time-out and policies.
        source_cluster_id: Part of the records' identity.
        target: The target cluster.
        keep_waiting: Called about twice a second while a slot waits; may raise. None for callers that only show
            positions: these never wait without end.
        patience: Longest wait in seconds; None for `coordination.commit.syncTimeout`.

    Raises:
        CommitLogBlocked: The topic was not read in time, and the policy says fail; or, under exactly-once, the caller
            only shows positions, and must not show guesses.
        ClusterUnreachable: The target does not answer.
        Refused: A record cannot be decoded, and the policy says fail.
    """
    topic = pipeline.coordination.commit.topic
    partitions = target.partitions_of([topic])
    if not partitions:
        return CommitLog()
    starts, ends = target.offsets(partitions, "earliest"), target.offsets(partitions, "latest")
    seconds = pipeline.coordination.commit.sync_timeout.total_seconds() if patience is None else patience
    # Only the last record of a key within a log partition can be the newest: writers are fenced in order.
    newest: dict[tuple[int, bytes | None], Message] = {}
    is_whole = True
    before: NotReadToTheEnd | None = None
    with LogReader(pipeline.client_properties("target", "consumer"), starts, committed_only=True) as reader:
        while True:
            try:
                for batch in reader.read_until(ends, Deadline(seconds)):
                    if keep_waiting:
                        keep_waiting()
                    keys = zip(map(Message.partition, batch), map(Message.key, batch), strict=True)
                    newest.update(zip(keys, batch, strict=True))
                break
            except NotReadToTheEnd as blocked:
                held = _held_at(blocked, target)
                if not held:
                    _ensure_nearer(blocked, before, target, may_read_on=patience is None)
                    before = blocked
                    continue
                if not _goes_on(pipeline, blocked, held, seconds, waits=keep_waiting is not None):
                    is_whole = False
                    break
    result = _fold(newest, pipeline, source_cluster_id)
    result.is_whole = is_whole
    result.incomplete = any(starts.values())
    if result.passed_over or not is_whole:
        result.sequences_below = sum(ends.values())
    return result


def _held_at(blocked: NotReadToTheEnd, target: Cluster) -> dict[TopicPartition, int]:
    """Where open transactions begin that block the read. Without any, the target was away, or there is much to read.

    Raises:
        ClusterUnreachable: The target does not answer.
    """
    stable = target.offsets(list(blocked.behind), "stable")
    return {tp: stable[tp] for tp, (_, end) in blocked.behind.items() if stable.get(tp, end) < end}


def _ensure_nearer(
    blocked: NotReadToTheEnd, before: NotReadToTheEnd | None, target: Cluster, may_read_on: bool
) -> None:
    """Makes sure that a read that no transaction blocks may go on, and has advanced since the last time-out.

    Raises:
        ClusterUnreachable: It has not advanced, or the caller has set a longest wait.
    """
    if not may_read_on or (before is not None and blocked.behind == before.behind):
        raise ClusterUnreachable(
            f"the commit topic on the {target} was not read: {blocked}, and no transaction holds it"
        )


def _goes_on(
    pipeline: Pipeline, blocked: NotReadToTheEnd, held: Mapping[TopicPartition, int], seconds: float, waits: bool
) -> bool:
    """Whether to wait on; if not, use the records read so far (at-least-once only)."""
    words = (
        f"the commit topic on the target was not read to its end within {seconds:g} s ({blocked}). Probably another "
        "writer holds a transaction open in it"
    )
    fails = pipeline.error_handling.on_commit_sync_timeout == "fail"
    if fails or (pipeline.features.exactly_once and not waits):
        look = ", ".join(map(find_hanging_command, held))
        end_them = ", ".join(abort_command(tp, start) for tp, start in held.items())
        advice = (
            " Raise coordination.commit.syncTimeout, or set errorHandling.onCommitSyncTimeout: ignore to keep waiting"
        )
        raise CommitLogBlocked(
            f"{words}; it ends by itself after that writer's transaction.timeout.ms. If it does not, it hangs: a "
            f"broker that restarted has lost the marker that ends it. Look with {look}; if it hangs, end it with "
            f"{end_them}.{advice if fails else ''}"
        )
    if pipeline.features.exactly_once:
        log.warning("%s; waiting on", words)
        return True
    log.warning("%s; starting from what was read: records may be copied twice", words)
    return False


def _fold(newest: Mapping[tuple[int, bytes | None], Message], pipeline: Pipeline, cluster: str) -> CommitLog:
    commits: NewestCommits[TopicPartition] = NewestCommits()
    result = CommitLog(commits.records)
    for message in newest.values():
        where = f"{message.topic()}-{message.partition()}@{message.offset()}"
        source: TopicPartition | None = None
        try:
            if is_other_kind(message.key()):
                continue  # notes of stops, and assignment records where they share the topic
            group, of_cluster, source = parse_key(message.key(), where)
            if (group, of_cluster) != (pipeline.group, cluster):
                continue
            if message.value() is None:
                continue
            record = CommitRecord.parse(message.key(), message.value(), where)
        except ValueError as error:
            hint = foreign_hint(message.key(), message.topic(), "coordination.commit.topic")
            _unreadable(pipeline, result, source, str(error), hint)
            continue
        commits.take(record.source, record)
    for tp in result.unreadable:
        result.positions.pop(tp, None)
    noted = StopNotes()
    for tp, note in notes_of(newest.values(), pipeline.group, cluster):
        noted.take(tp, note)
    result.noted = {tp: note for tp, note in noted.notes.items() if tp not in result.positions}
    return result


def records_of(messages: Iterable[Message], group: str, cluster: str) -> Iterator[CommitRecord]:
    """Picks the commit records of one group and source cluster from messages of the commit topic.

    It skips messages that cannot be read: `read_commit_log` reports these, by the pipeline's policy.

    Args:
        messages: Messages of the commit topic.
        group: Identity of the progress.
        cluster: Source cluster id.
    """
    for message in messages:
        try:
            record = CommitRecord.parse(message.key(), message.value(), f"offset {message.offset()}")
        except ValueError:
            continue
        if (record.group, record.cluster) == (group, cluster):
            yield record


def notes_of(messages: Iterable[Message], group: str, cluster: str) -> Iterator[tuple[TopicPartition, StopNote | None]]:
    """Picks the notes of one group and source cluster on stops without a position; None: it is stopped no more.

    It skips notes that cannot be read: no position is lost with one.

    Args:
        messages: Messages of the commit topic, in the order of the log.
        group: Identity of the progress.
        cluster: Source cluster id.
    """
    for message in messages:
        if not is_note(message.key()):
            continue
        where = f"{message.topic()}-{message.partition()}@{message.offset()}"
        try:
            *identity, source = parse_note_key(message.key(), where)
            if identity == [group, cluster]:
                yield source, StopNote.parse(message.key(), message.value(), where) if message.value() else None
        except ValueError as error:
            log.debug("the note of a stop is ignored: %s", error)


def _unreadable(pipeline: Pipeline, result: CommitLog, source: TopicPartition | None, why: str, hint: str) -> None:
    if pipeline.error_handling.on_control_message_deserialization_error == "fail":
        if hint:
            raise Refused(f"control record cannot be read: {why}{hint}")
        raise Refused(
            f"control record cannot be read: {why}. With errorHandling.onControlMessageDeserializationError: ignore "
            "the other partitions go on without it"
        )
    log.warning("control record ignored: %s", why)
    result.passed_over |= source is not None
    # Under exactly-once an unreadable position does not count as none: its partition waits, the others go on.
    if source is not None and pipeline.features.exactly_once:
        result.unreadable[source] = why


def ensure_same_commit_topic(pipeline: Pipeline, expected: str, found: str | None) -> None:
    """Refuses a commit topic that was created anew: with a lost topic everything would be copied once more.

    Args:
        pipeline: Names topic and group.
        expected: Id of the topic that holds the group's positions.
        found: Id of the present topic; None if there is none.

    Raises:
        Refused: The ids differ.
    """
    if found == expected:
        return
    what = f"and created anew since group {pipeline.group} used it last (topic id {expected} is now {found})"
    raise Refused(
        f"the commit topic {pipeline.coordination.commit.topic} was deleted "
        f"{what if found else f'while group {pipeline.group} used it (topic id {expected})'}: its positions are lost. "
        "To copy everything from the start, use a new group.id"
    )


def now_ms(clock: Clock = SYSTEM_CLOCK) -> int:
    """Wall time for control records, in milliseconds since the epoch."""
    return int(clock.time() * 1000)
