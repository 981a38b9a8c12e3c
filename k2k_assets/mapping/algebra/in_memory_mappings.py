"""The mappings of all source partitions that a running mapper keeps in memory. Pure, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from k2k_assets.control.mapping_records import MappingKey, are_concerned
from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.mapping.algebra.fold import Covered, LateRecord
from k2k_assets.mapping.algebra.in_memory_mapping import InMemoryMapping, NotInMemory, Placed, Records, Tables
from k2k_assets.mapping.algebra.lost_copies import without_overlaid
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition

_NOTHING = InMemoryMapping()


class InMemoryMappings:
    """The pipeline's own mappings, and those of other pipelines that share the mapping topic.

    Args:
        group: The pipeline's `group.id`; or `ANY_GROUP`: of pipelines that mapped a source partition one after the
            other the last one counts as the own one, and of those that map it side by side the first one.
        mark_every: Records of so many milliseconds are dropped together.
        with_dropped: Whether the ranges that were left out on purpose are kept too (`InMemoryMapping`).
    """

    def __init__(self, group: str, mark_every: int, with_dropped: bool = False) -> None:
        self._with_dropped = with_dropped
        self._group = group
        self._mark_every = mark_every
        self._owners: dict[SourcePartition, str] = {}
        self._own: dict[SourcePartition, InMemoryMapping] = {}
        self._began_at: Mapping[int, int] = {}
        self._read_anew_to: Mapping[int, int] = {}
        self._others: dict[SourcePartition, dict[str, InMemoryMapping]] = {}
        self._broken: set[tuple[str, SourcePartition]] = set()  # others of which some records could not be folded
        self._partition_of: dict[tuple[str, SourcePartition], int] = {}
        self._alone: dict[SourcePartition, tuple[tuple[Covered, ...], Tables]] = {}

    def begin_behind_index(self, held: Mapping[SourcePartition, InMemoryMapping], read_to: Mapping[int, int]) -> None:
        """Starts with mappings that go on behind an index, and nothing else.

        Args:
            held: Mappings by source partition.
            read_to: Offsets of the mapping topic, by partition, up to which that index has read. One that was built
                anew and has not read so far may hold runs that were cancelled before they came into this one.
        """
        self._begin(held, read_to)

    def begin_anew(self, read_to: Mapping[int, int]) -> None:
        """Starts with nothing, to read all records anew.

        Args:
            read_to: Offsets of the mapping topic, by partition, up to which they are read. An index that has not read
                so far may hold runs that these records cancel.
        """
        self._begin({}, read_to)
        self._read_anew_to = read_to

    def _begin(self, held: Mapping[SourcePartition, InMemoryMapping], read_to: Mapping[int, int]) -> None:
        self._own = dict(held)
        self._began_at, self._read_anew_to = read_to, {}
        self._others, self._alone = {}, {}
        self._owners, self._broken = {}, set()

    @property
    def read_anew_to(self) -> Mapping[int, int]:
        """As for `begin_anew`; empty if they go on behind an index."""
        return self._read_anew_to

    def sources(self) -> Iterable[SourcePartition]:
        """The source partitions that the pipeline maps."""
        return self._own.keys()

    def held(self, source: SourcePartition) -> InMemoryMapping:
        """The mapping of a source partition in memory."""
        return self._own.get(source, _NOTHING)

    def items(self) -> Iterable[tuple[SourcePartition, InMemoryMapping]]:
        """The mappings of the source partitions that the pipeline maps."""
        return self._own.items()

    def alone(self, source: SourcePartition) -> tuple[tuple[Covered, ...], Tables]:
        """Coverage and runs in memory; computed again only after a change."""
        if source not in self._alone:
            self._alone[source] = without_overlaid(*self.held(source).alone())
        return self._alone[source]

    def others_of(self, source: SourcePartition) -> dict[str, PartitionMap]:
        """The maps of a source partition by other pipelines' mappings, by their `group.id`."""
        found = self._others.get(source, {})
        return {group: PartitionMap.with_dropped(source, None, *held.alone()) for group, held in found.items()}

    def read_to(self, source: SourcePartition) -> Mapping[int, int]:
        """Offsets of the mapping topic, by partition, up to which an index must have read to fit these mappings."""
        recopied = self.held(source).recopied
        return {p: max(self._began_at.get(p, 0), recopied.get(p, 0)) for p in {*self._began_at, *recopied}}

    def doubt(self) -> None:
        """Marks all mappings as doubtful, because mapping records were deleted before they were read."""
        for _, _, held in self._everything():
            held.is_doubtful = True

    def doubt_some(self, passed_over: Collection[MappingKey | None]) -> None:
        """Marks mappings as doubtful of which records were passed over, because they cannot be read.

        Args:
            passed_over: As for `are_concerned`.
        """
        for group, source, held in self._everything() if passed_over else ():
            held.is_doubtful |= are_concerned(MappingKey(group, source.topic, source.partition), passed_over)

    def take(self, records: Records) -> None:
        """Adds mapping records.

        Raises:
            LateRecord: A record is older than one that was folded before.
            NotInMemory: A record cancels runs that are not in memory, or the mapping that counts from now on is not.
        """
        for (group, source), placed in records.items():
            try:
                self._fold(group, source, placed)
            except (LateRecord, NotInMemory):
                if group not in self._others.get(source, {}):
                    raise
                # The next records show again that there is another mapping.
                del self._others[source][group]
                self._broken.add((group, source))
            self._choose_owner(source)

    def add(self, group: str, source: SourcePartition, placed: Sequence[Placed]) -> None:
        """Adds mapping records of one source partition.

        Raises:
            LateRecord: A record is older than one that was folded before; the partition's mapping is invalid now.
            NotInMemory: A record cancels runs that are not in memory, or the mapping that counts from now on is not.
        """
        self._fold(group, source, placed)
        self._choose_owner(source)

    def _fold(self, group: str, source: SourcePartition, placed: Sequence[Placed]) -> None:
        self._partition_of[group, source] = placed[-1].partition
        if group != self._owner(source, group):
            others = self._others.setdefault(source, {})
            others.setdefault(group, InMemoryMapping(with_dropped=self._with_dropped)).extend(placed, self._mark_every)
        else:
            own = self._own.setdefault(source, InMemoryMapping(with_dropped=self._with_dropped))
            own.extend(placed, self._mark_every)
            self._alone.pop(source, None)

    def group_of(self, source: SourcePartition) -> str:
        """The `group.id` of the pipeline whose mappings of a source partition count."""
        return self._owners.get(source, self._group)

    def _owner(self, source: SourcePartition, group: str) -> str:
        return self._owners.setdefault(source, group) if self._group == ANY_GROUP else self._group

    def _choose_owner(self, source: SourcePartition) -> None:
        if self._group != ANY_GROUP or not self._others.get(source):
            return
        before, others = self._owners[source], self._others[source]
        owner = last_of_those_that_followed({before: self._own[source], **others})
        if owner == before:
            return
        if (owner, source) in self._broken:
            raise NotInMemory(f"the mappings of {source} by '{owner}' count from now on, and are not whole in memory")
        others[before], self._own[source] = self._own[source], others.pop(owner)
        self._owners[source] = owner
        self._alone.pop(source, None)

    def _everything(self) -> Iterator[tuple[str, SourcePartition, InMemoryMapping]]:
        yield from ((self.group_of(source), source, held) for source, held in self._own.items())
        for source, others in self._others.items():
            yield from ((group, source, held) for group, held in others.items())

    def drop(self, older_than: int | None, log_starts: Mapping[int, int], most_runs: int | None) -> None:
        """Drops the oldest runs; arguments as for `InMemoryMapping.drop`, but with a log start for each partition."""
        for group, source, held in self._everything():
            if held.drop(older_than, log_starts.get(self._partition_of.get((group, source), -1), 0), most_runs):
                self._alone.pop(source, None)


def last_of_those_that_followed(mappings: Mapping[str, InMemoryMapping]) -> str:
    """Which pipeline's mappings count: the last one that followed another one into the same target topic.

    It began when all before it had ended. Where a partition is idle, a pipeline beside another one looks the same; that
    one copies into a topic of its own.

    ```
     a  ━━━━━━━━                            a pipeline got another group.id: b
     b            ━━━━━━━━━━━━━             b and c copy side by side: the first of them
     c                 ━━━━━━━━━━━━━
    ```

    Args:
        mappings: Mappings of one source partition with at least one record each, by the `group.id` of their pipeline.
    """
    ordered = sorted((held.first_time or 0, group) for group, held in mappings.items())
    owner, ended = ordered[0][1], -1
    for began, group in ordered:
        if began > ended and not mappings[owner].target_topics().isdisjoint(mappings[group].target_topics()):
            owner = group
        ended = max(ended, mappings[group].last_time)
    return owner
