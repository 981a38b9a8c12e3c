"""The mapping record: where one transaction copied the records of one source partition to.

It is written in the same target transaction as the data. The covered source range is written even when no record of it
went to the target, so that "no record went there" differs from "a mapping record is missing". Records that were left
out on purpose are named as such, with the rule.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, ClassVar

from msgspec import field, structs

from k2k_assets.core import wire
from k2k_assets.core.runs import Run
from k2k_assets.pipeline import Pipeline

VERSION = 1
MOST_RUNS = 20_000
"""With so many runs and dropped ranges a record stays well below the usual limit of 1 MB."""
_start_of = itemgetter(0)


class MappingKey(wire.Fields, frozen=True):
    """The key of a mapping record: the group, and the source partition."""

    group: str
    topic: str
    partition: int


def are_concerned(key: MappingKey, passed_over: Collection[MappingKey | None]) -> bool:
    """Whether records of a key may be among those that were passed over because they cannot be read.

    Args:
        key: The key.
        passed_over: Keys of the records that were passed over; None: one whose key cannot be read either.
    """
    return key in passed_over or None in passed_over


class MappedPartition(wire.Fields, frozen=True):
    """The runs into one target partition.

    Attributes:
        topic: Target topic.
        topic_id: Target topic id.
        partition: Target partition.
        runs: Merged runs, ordered by source offset.
    """

    topic: str
    topic_id: str = field(name="id")
    partition: int
    runs: tuple[Run, ...]


class DroppedBy(wire.Fields, frozen=True):
    """The records that a rule left out.

    Attributes:
        rule: Name of the rule.
        ranges: First source offset of each range, and the offset after its last record; ordered, disjoint.
    """

    rule: str
    ranges: tuple[tuple[int, int], ...]


class BothWays(wire.Fields, frozen=True):
    """How a bidirectional pipeline copied.

    Attributes:
        mode: `bidirectional.mode`: whose copies were left out.
        shared: Whether others write to its target topics as well (`Pipeline.shares_targets`).
        exactly_once: Whether each record was copied once. Otherwise copies may lie on the target that no mapping record
            answers for.
    """

    mode: str
    shared: bool
    exactly_once: bool

    @classmethod
    def of(cls, pipeline: Pipeline) -> BothWays | None:
        """How a pipeline copies; None if it is not bidirectional."""
        if not pipeline.features.bidirectional_replication:
            return None
        return cls(pipeline.bidirectional.mode, pipeline.shares_targets, pipeline.features.exactly_once)


class _Value(wire.Value, frozen=True):
    pipeline: str
    cluster: str
    source_topic_id: str
    generation: int
    slot: int
    sequence: int
    time: int
    covered_from: int = field(name="from")
    covered_to: int = field(name="to")
    targets: tuple[MappedPartition, ...]
    settings: str | None = None
    override: str | None = None
    dropped: tuple[DroppedBy, ...] = ()
    both_ways: BothWays | None = None
    forward_since: int | None = None


@dataclass(frozen=True, slots=True)
class MappingRecord:
    """One record of the mapping topic.

    Attributes:
        group: Identity of the progress.
        topic: Source topic.
        partition: Source partition.
        pipeline: Name of the pipeline.
        cluster: Source cluster id.
        source_topic_id: Source topic id.
        generation: Generation of the instance that copied.
        slot: Number of the slot that copied.
        sequence: Rises by one with each transaction of the slot.
        time: Milliseconds since the epoch, UTC.
        covered_from: Start of the covered source range (inclusive).
        covered_to: End of the covered source range (exclusive).
        targets: The runs, by target partition.
        override: Who set the position by hand, and why. Such a record says that nothing of the range was copied, and
            it cancels all earlier runs at or after `covered_from`. None in records of copies.
        settings: Fingerprint of the settings of the copy (`control/copy_settings.py`); None in records of releases that
            did not note it.
        dropped: The records that were left out on purpose, by rule. The ranges of all rules are disjoint.
        both_ways: How a bidirectional pipeline copied; None if it was not bidirectional. So those learn it who do not
            have its file.
        forward_since: As in the commit record; None if that is its own generation.
    """

    group: str
    topic: str
    partition: int
    pipeline: str
    cluster: str
    source_topic_id: str
    generation: int
    slot: int
    sequence: int
    time: int
    covered_from: int
    covered_to: int
    targets: tuple[MappedPartition, ...]
    override: str | None = None
    settings: str | None = None
    dropped: tuple[DroppedBy, ...] = ()
    both_ways: BothWays | None = None
    forward_since: int | None = None

    version: ClassVar[int] = VERSION

    @property
    def only_forward_since(self) -> int:
        """The first generation since which the partition was copied only forwards, and to the same place."""
        return self.generation if self.forward_since is None else self.forward_since

    def key(self) -> MappingKey:
        """The record's key."""
        return wire.fields_of(self, MappingKey)

    def key_bytes(self) -> bytes:
        """The record's key: UTF-8 JSON, the same bytes for all records of a source partition."""
        return wire.encode(self.key())

    def value_bytes(self) -> bytes:
        """The record's value: UTF-8 JSON."""
        return wire.encode(wire.fields_of(self, _Value))

    def pieces(self) -> Iterator[MappingRecord]:
        """The record, or several in its place, of `MOST_RUNS` each at most; their ranges follow on each other."""
        stretches = [*(target.runs for target in self.targets), *(each.ranges for each in self.dropped)]
        if sum(map(len, stretches)) <= MOST_RUNS:
            yield self
            return
        # No run and no range lies across the start of another: each source offset is in one of them.
        starts = sorted(map(_start_of, chain.from_iterable(stretches)))
        for start, end in pairwise([self.covered_from, *starts[MOST_RUNS::MOST_RUNS], self.covered_to]):
            runs = [structs.replace(t, runs=t.runs[_beginning_in(t.runs, start, end)]) for t in self.targets]
            ranges = [structs.replace(d, ranges=d.ranges[_beginning_in(d.ranges, start, end)]) for d in self.dropped]
            targets, dropped = tuple(t for t in runs if t.runs), tuple(d for d in ranges if d.ranges)
            yield replace(self, covered_from=start, covered_to=end, targets=targets, dropped=dropped)

    def document(self) -> dict[str, Any]:
        """The record's value as a JSON document."""
        return wire.document(wire.fields_of(self, _Value))

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None, where: str = "mapping record") -> MappingRecord:
        """Reads a record.

        Args:
            key: The record's key.
            value: The record's value.
            where: Topic, partition and offset, for the error.

        Raises:
            ValueError: The record cannot be read, or a newer release wrote it.
        """
        head, body = parse_key(key, where), wire.decode(_Value, value, VERSION, where)
        return cls(**wire.contents(head), **wire.contents(body))


def _beginning_in(stretches: Sequence[tuple[int, ...]], start: int, end: int) -> slice:
    return slice(*(bisect_left(stretches, bound, key=_start_of) for bound in (start, end)))


def parse_key(key: bytes | None, where: str = "mapping record") -> MappingKey:
    """Reads a record's key.

    Raises:
        ValueError: The key cannot be read.
    """
    return wire.decode_key(MappingKey, key, where)
