"""Folds the whole mapping topic in bounded memory, in whatever order its partitions are read. No I/O.

```
 messages ──a few at a time──> fold ──────────────────────> in memory
                                │ out of order: noted, the topic is read once more
                                └──> set aside, compressed ──all read, sorted──> in memory
```

All records of a source partition lie in one partition of the mapping topic, in their order, unless partitions were
added or a record was written late. Only for these source partitions are the records set aside until all are read.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence

from k2k_assets.control.mapping_records import MappingKey, MappingRecord, are_concerned
from k2k_assets.kafka.messages import Message
from k2k_assets.mapping.algebra.fold import LateRecord
from k2k_assets.mapping.algebra.in_memory_mapping import Placed
from k2k_assets.mapping.algebra.in_memory_mappings import InMemoryMappings
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.live.mapping_messages import MappingMessages

# Bytes of messages that are decoded at once; decoded records take some twenty times as much memory.
MOST_BYTES = 2 * 1024 * 1024

Owned = tuple[str, SourcePartition]
"""A `group.id`, and a source partition that its pipeline copies."""


def few_at_a_time(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Splits messages into lists of about `MOST_BYTES` each, in order."""
    some: list[Message] = []
    size = 0
    for message in messages:
        some.append(message)
        size += len(message.value() or b"")
        if size >= MOST_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


class ReadingAnew:
    """One reading from the start of the topic.

    Args:
        held: The mappings to fill, still empty.
        messages: Reads the messages.
        out_of_order: Source partitions that earlier readings have found to be out of order.
    """

    def __init__(self, held: InMemoryMappings, messages: MappingMessages, out_of_order: Collection[Owned]) -> None:
        self._held = held
        self._messages = messages
        self._out_of_order = frozenset(out_of_order)
        self._aside: dict[Owned, SetAside] = {}
        self._late: set[Owned] = set()
        self._passed_over: set[MappingKey | None] = set()

    def take(self, batch: Sequence[Message]) -> None:
        """Takes in the next messages.

        Raises:
            Refused: A message cannot be read.
        """
        for some in few_at_a_time(batch):
            for records, passed_over in self._messages.read(some):
                for owned, placed in records.items():
                    self._take(owned, placed)
                self._held.doubt_some(passed_over)
                self._passed_over.update(passed_over)

    def _take(self, owned: Owned, placed: Sequence[Placed]) -> None:
        if owned in self._out_of_order:
            self._aside.setdefault(owned, SetAside()).add(placed)
        elif owned not in self._late:
            try:
                self._held.add(*owned, placed)
            except LateRecord:
                self._late.add(owned)

    def finish(self) -> set[Owned]:
        """Folds the records that were set aside, after the last message.

        Returns:
            Further source partitions that are out of order; if there are any, another reading has to set them aside.
        """
        while self._aside and not self._late:
            owned, aside = self._aside.popitem()
            for placed in aside.in_order():
                self._add(owned, placed)
        return self._late

    def _add(self, owned: Owned, placed: Sequence[Placed]) -> None:
        key = placed[0].record.key()
        if not are_concerned(key, self._passed_over):
            self._held.add(*owned, placed)
            return
        for each in placed:  # between which of them those belong that were passed over is not known
            self._held.doubt_some([key])
            self._held.add(*owned, [each])


class SetAside:
    """Records of one source partition, compressed."""

    def __init__(self) -> None:
        self._key = b""
        self._places: list[tuple[int, int, int, int]] = []
        self._values: list[bytes] = []

    def add(self, placed: Sequence[Placed]) -> None:
        """Adds records, at least one."""
        self._key = placed[0].record.key_bytes()
        self._places += [(p.record.generation, p.record.sequence, p.partition, p.offset) for p in placed]
        self._values.append(zlib.compress(b"\n".join(p.record.value_bytes() for p in placed), 1))

    def in_order(self) -> Iterator[list[Placed]]:
        """Yields the records by generation and sequence, a few at a time."""
        values = [value for some in self._values for value in zlib.decompress(some).split(b"\n")]
        some: list[Placed] = []
        size = 0
        for number in sorted(range(len(values)), key=lambda number: self._places[number][:2]):
            record = MappingRecord.parse(self._key, values[number])
            some.append(Placed(*self._places[number][2:], record))
            size += len(values[number])
            if size >= MOST_BYTES:
                yield some
                some, size = [], 0
        if some:
            yield some
