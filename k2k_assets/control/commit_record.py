"""The commit record: how far a source partition has been copied, in the transaction that copied it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from msgspec import Raw, field

from k2k_assets.core import wire
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.stops.document import reason_of, written
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.source_log import SourceDiverged, SourceTruncated
from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS, TopicPartition
from k2k_assets.pipeline.sections.bidirectional import Marker

VERSION = 1
_BY_RECORDS = "records"
EVERYWHERE = BEYOND_ALL_LOGS
"""Of a partition that is copied at least once still: behind every source position (`repeats_below`)."""
Kind = Literal["start", "commit", "release", "override"]


class _Key(wire.Fields, frozen=True):
    group: str
    cluster: str
    topic: str
    partition: int


class _Target(wire.Fields, frozen=True):
    topic: str
    id: str


class _Overridden(wire.Fields, frozen=True):
    by: str
    why: str | None
    position: int | None
    source_topic_id: str | None
    target_topic_id: str | None
    stopped: str | None
    stop: Any = None


class _Producer(wire.Fields, frozen=True):
    id: int
    epoch: int


class _Value(wire.Value, frozen=True):
    kind: str  # a `Kind`, or one of a newer release
    pipeline: str
    position: int
    leader_epoch: int | None
    source_topic_id: str
    target: _Target
    target_end: int | None
    generation: int
    slot: int
    sequence: int
    time: int
    records: int = wire.written(0)
    bytes_: int = wire.written(0)
    runs: int = wire.written(0)
    reason: str | None = wire.written(None)
    stop: Any = None
    began: int | None = wire.written(None)
    epoch_end: int | None = field(default=None, name="leaderEpochEnd")
    log_start: int | None = None
    target_began: int | None = None
    target_accepted: int | None = None
    overridden: _Overridden | None = None
    dropped: int = 0
    producer: _Producer | None = None
    transport: str | None = None
    source_was_cut: bool = False
    marker: tuple[str, str, str] | None = None
    marker_changed: bool = False
    at_least_once: bool = False
    at_least_once_below: int | None = None
    forward_since: int | None = None
    spread: bool = False


@dataclass(frozen=True, slots=True)
class Overridden:
    """The state that an override replaced, who did it and why.

    Attributes:
        by: User and host of the override.
        why: The user's reason; None if the user gave none.
        position: Position before the override; None if none was known.
        source_topic_id: Source topic id before the override.
        target_topic_id: Target topic id before the override.
        stopped: Stop reason of the partition before the override; None if it was not stopped.
    """

    by: str
    why: str | None
    position: int | None
    source_topic_id: str | None
    target_topic_id: str | None
    stopped: StopReason | None


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One record of the commit topic.

    Attributes:
        group: Identity of the progress.
        cluster: Source cluster id.
        source: Source partition.
        kind: start (nothing copied yet), commit, release (the owner left), override (set by hand).
        pipeline: Name of the pipeline.
        position: Next source offset to copy.
        leader_epoch: Leader epoch of the last record copied; None if unknown.
        source_topic_id: Source topic id.
        target_topic: Target topic of the records.
        target_topic_id: Target topic id.
        target_end: Target offset after the last record copied; None where several partitions are fed, or none yet.
        generation: Generation of the instance.
        slot: Number of the slot.
        sequence: Rises with each transaction of the slot.
        time: Milliseconds since the epoch, UTC.
        records: Records copied by this generation so far.
        bytes_: Value bytes copied by this generation so far.
        runs: Runs written by this generation so far.
        reason: Why the partition was stopped; None if it was not.
        began: Position at which copying of the partition began; None in records of releases that did not note it.
        log_start: Log start of the source partition at that time; records from there up to `began` are not on the
            target. None in records of releases that did not note it.
        overridden: The state that an override replaced, also in records behind it until the position has moved; else
            None. Older releases have it in the override only.
        epoch_end: Offset after the last record copied, where `leader_epoch` holds; None if that is the position.
        target_began: Target offset at which copying began behind the copy of another tool (`k2k-tool adopt`); None if
            no such copy was adopted.
        target_accepted: End of the target partition when what others wrote to it was accepted by hand. While it is the
            target end, no record and no commit marker of ours lies before it. None if nothing was accepted.
        dropped: Records left out on purpose by this generation so far.
        producer: Under which producer id and epoch the partition's records were written outside transactions: who
            copies it next raises the epoch, so that nothing of the one before arrives late. None if there is none.
        transport: How they were brought: `batches`, or `records: ` with the reason why not by batches. None: by
            records, as the pipeline file says.
        source_was_cut: Whether the source's log lost records that a copy had read, after an unclean election: groups
            may have read them too.
        marker: The marker of the copies; None if they have none, and in records of releases that did not note it.
        marker_changed: Whether earlier copies of the partition in the target topic have another marker, or none.
        at_least_once: Whether its writer copies at least once: copies may lie on the target that no mapping record
            answers for yet. It is committed before the first such copy. False in records of releases that did not note
            it.
        at_least_once_below: Position at which its writer, or one before it, went on exactly once behind copies at least
            once in the target topic: some of those may be there twice, and no mapping record will ever answer for them.
            They lie before the copies from this position on. None if there are none, if its writer copies at least
            once, and in records of releases that did not note it.
        forward_since: The first generation since which the partition was copied only forwards, and to the same place:
            each later one began where the one before it had stopped, into the same target topic, and with `spread` as
            here. One more than its own where not even that is known, because commit records were not read. None in
            records of releases that did not note it.
        spread: Whether the producer chose the target partition of each record (`partition: producer`). False in
            records of releases that did not note it.
    """

    group: str
    cluster: str
    source: TopicPartition
    kind: Kind
    pipeline: str
    position: int
    leader_epoch: int | None
    source_topic_id: str
    target_topic: str
    target_topic_id: str
    target_end: int | None
    generation: int
    slot: int
    sequence: int
    time: int
    records: int = 0
    bytes_: int = 0
    runs: int = 0
    reason: StopReason | None = None
    began: int | None = None
    overridden: Overridden | None = None
    epoch_end: int | None = None
    log_start: int | None = None
    target_began: int | None = None
    target_accepted: int | None = None
    dropped: int = 0
    producer: ProducerIdentity | None = None
    transport: str | None = None
    source_was_cut: bool = False
    marker: Marker | None = None
    marker_changed: bool = False
    at_least_once: bool = False
    at_least_once_below: int | None = None
    forward_since: int | None = None
    spread: bool = False
    version: ClassVar[int] = VERSION

    @property
    def order(self) -> tuple[int, int]:
        """Generation and sequence: the newest record of a key has the highest, whatever its offset."""
        return self.generation, self.sequence

    def is_under(self, marker: Marker | None, always: bool) -> bool:
        """Whether it was written under a marker.

        Args:
            marker: The marker.
            always: Whether the group has copied under no other one: older releases did not note it here.
        """
        return self.marker == marker or (self.marker is None and always)

    def has_others_than(self, marker: Marker | None, always: bool) -> bool:
        """Whether copies in the target topic may have another marker, or none; the arguments as for `is_under`."""
        return self.marker_changed or (self._has_copied and not self.is_under(marker, always))

    @property
    def _has_copied(self) -> bool:
        """Whether copies may be in the target topic. An override may have gone back to where they begin."""
        before = self.overridden
        went_back = (
            before is not None
            and before.target_topic_id == self.target_topic_id
            and before.position not in (None, self.position)
        )
        return self.position != self.began or went_back

    @property
    def repeats_below(self) -> int | None:
        """The source position before whose copy some may lie in the target topic twice, of which one is mapped.

        `EVERYWHERE` while the partition is copied at least once; None if it never was.
        """
        return EVERYWHERE if self.at_least_once else self.at_least_once_below

    def maybe_old(self) -> CommitRecord:
        """The record where newer ones cannot be read: nobody knows whether the copy has gone back since."""
        return replace(self, forward_since=EVERYWHERE)

    @property
    def is_source_cut(self) -> bool:
        """Whether the copy is stopped because the partition's log lost records that it had read.

        The stop of one partition is that of its whole topic.
        """
        return isinstance(self.reason, SourceDiverged | SourceTruncated) and self.reason.source == self.source

    @property
    def form(self) -> str:
        """How records were brought, in words; empty if nobody has brought any."""
        return "" if self.kind == "override" else self.transport or _BY_RECORDS

    def key_bytes(self) -> bytes:
        """The record's key: UTF-8 JSON, the same bytes in every release, because compaction compares them."""
        return key_bytes(self.group, self.cluster, self.source)

    def value_bytes(self) -> bytes:
        """The record's value: UTF-8 JSON, with the stop reason both as text and as a document."""
        target = _Target(self.target_topic, self.target_topic_id)
        reason, stop = _written(self.reason)
        overridden = None
        if self.overridden:
            stopped, stopped_as = _written(self.overridden.stopped)
            overridden = wire.fields_of(self.overridden, _Overridden, stopped=stopped, stop=stopped_as)
        producer = _Producer(*self.producer) if self.producer else None
        value = wire.fields_of(
            self, _Value, target=target, reason=reason, stop=stop, overridden=overridden, producer=producer
        )
        return wire.encode(value)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None, where: str) -> CommitRecord:
        """Reads a record.

        Raises:
            ValueError: The record cannot be read, or a newer release wrote it.
        """
        group, cluster, source = parse_key(key, where)
        body = wire.decode(_Value, value, VERSION, where)
        overridden = None
        if put_aside := body.overridden:
            stopped = _read(put_aside.stopped, put_aside.stop)
            overridden = Overridden(**wire.contents(put_aside, "stopped", "stop"), stopped=stopped)
        return cls(
            group,
            cluster,
            source,
            target_topic=body.target.topic,
            target_topic_id=body.target.id,
            reason=_read(body.reason, body.stop),
            overridden=overridden,
            producer=ProducerIdentity(body.producer.id, body.producer.epoch) if body.producer else None,
            marker=Marker.parse(body.marker),
            **wire.contents(body, "target", "reason", "stop", "overridden", "producer", "marker"),
        )


def _written(reason: StopReason | None) -> tuple[str, Raw] | tuple[None, None]:
    return (None, None) if reason is None else written(reason)


def _read(text: str | None, document: object) -> StopReason | None:
    return None if text is None else reason_of(document, text)


def forms_of(forms: Iterable[str]) -> str:
    """How the records of several partitions were brought (`CommitRecord.form` of each), in one text."""
    return "; ".join(sorted({form for form in forms if form}))


def key_bytes(group: str, cluster: str, source: TopicPartition) -> bytes:
    """The key of a partition's commit records."""
    return wire.encode(_Key(group, cluster, *source))


def is_other_kind(key: bytes | None) -> bool:
    """Whether the key is that of an assignment record, whose first field is its kind."""
    return key is not None and key.startswith(b'{"kind":')


def parse_key(key: bytes | None, where: str) -> tuple[str, str, TopicPartition]:
    """Reads group, source cluster id and source partition from a key.

    Raises:
        ValueError: The key is not that of a commit record.
    """
    head = wire.decode_key(_Key, key, where)
    return head.group, head.cluster, TopicPartition(head.topic, head.partition)
