"""The note that a partition without a position is stopped. Pure.

A commit record always has a position, and none may be invented: whoever read it would copy from there, or translate by
it. So the stop of a partition that has none is a record of its own in the commit topic. Its key begins with a kind, as
those of the assignment topic do: readers of positions pass over it, those of earlier releases too. Once the partition
has a position, the note says nothing any more, whether its tombstone was read or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from k2k_assets.core import wire
from k2k_assets.core.stops.document import reason_of, written
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition

VERSION = 1
_BEGIN = b'{"kind":"stopped",'


class _Key(wire.Fields, frozen=True, tag_field="kind", tag="stopped"):
    group: str
    cluster: str
    topic: str
    partition: int


class _Value(wire.Value, frozen=True, kw_only=True):
    pipeline: str
    generation: int
    slot: int
    time: int
    reason: str
    stop: Any = None


@dataclass(frozen=True, slots=True)
class StopNote:
    """A source partition without a position that a slot has stopped.

    Attributes:
        group: Identity of the progress.
        cluster: Source cluster id.
        source: Source partition.
        pipeline: Name of the pipeline.
        generation: Generation of the slot's instance.
        slot: Number of the slot.
        time: Milliseconds since the epoch, UTC.
        reason: Why it is stopped.
    """

    group: str
    cluster: str
    source: TopicPartition
    pipeline: str
    generation: int
    slot: int
    time: int
    reason: StopReason
    version: ClassVar[int] = VERSION

    def key_bytes(self) -> bytes:
        """The record's key."""
        return note_key(self.group, self.cluster, self.source)

    def value_bytes(self) -> bytes:
        """The record's value, with the reason both as text and as a document."""
        text, document = written(self.reason)
        return wire.encode(wire.fields_of(self, _Value, reason=text, stop=document))

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None, where: str) -> StopNote:
        """Reads a note.

        Raises:
            ValueError: The record is none, or a newer release wrote it.
        """
        group, cluster, source = parse_note_key(key, where)
        body = wire.decode(_Value, value, VERSION, where)
        reason = reason_of(body.stop, body.reason)
        return cls(group, cluster, source, reason=reason, **wire.contents(body, "reason", "stop"))


def note_key(group: str, cluster: str, source: TopicPartition) -> bytes:
    """The key of a partition's note."""
    return wire.encode(_Key(group, cluster, *source))


def is_note(key: bytes | None) -> bool:
    """Whether a record of the commit topic is a note, or the tombstone of one."""
    return key is not None and key.startswith(_BEGIN)


def parse_note_key(key: bytes | None, where: str) -> tuple[str, str, TopicPartition]:
    """Reads group, source cluster id and source partition from a key.

    Raises:
        ValueError: The key is not that of a note.
    """
    head = wire.decode_key(_Key, key, where)
    return head.group, head.cluster, TopicPartition(head.topic, head.partition)


class StopNotes:
    """The newest note of each source partition: the fold of the notes.

    Records of one key may lie in several partitions of the commit topic (`optimizeOffsetCommitPartition`), so of two
    notes the one of the higher generation is newer. A tombstone comes with a position, which counts in any case.

    Attributes:
        notes: The notes by source partition.
    """

    def __init__(self) -> None:
        self.notes: dict[TopicPartition, StopNote] = {}

    def take(self, source: TopicPartition, note: StopNote | None) -> bool:
        """Takes in a note, or its tombstone (None); returns whether it tells a stop that was not known."""
        before = self.notes.get(source)
        if note is None:
            self.notes.pop(source, None)
        elif before is None or note.generation > before.generation:
            self.notes[source] = note
            return True
        return False
