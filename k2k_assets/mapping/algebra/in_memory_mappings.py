"""The mappings of all source partitions that a running mapper keeps in memory. Pure, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.mapping.algebra.fold import Covered, LateRecord
from k2k_assets.mapping.algebra.in_memory_mapping import InMemoryMapping, NotInMemory, Placed, Records, Tables
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition

_NOTHING = InMemoryMapping()


class InMemoryMappings:
    """The pipeline's own mappings, and those of other pipelines that share the mapping topic.

    Args:
        group: The pipeline's `group.id`, or `ANY_GROUP`.
        mark_every: Records of so many milliseconds are dropped together.
        with_dropped: Whether the ranges that were left out on purpose are kept too (`InMemoryMapping`).
    """

    def __init__(self, group: str, mark_every: int, with_dropped: bool = False) -> None:
        self._with_dropped = with_dropped
        self._group = group
        self._mark_every = mark_every
        self._owners: dict[SourcePartition, str] = {}
        self._own: dict[SourcePartition, InMemoryMapping] = {}
        self._began_at: dict[int, int] = {}
        self._others: dict[tuple[str, SourcePartition], InMemoryMapping] = {}
        self._partition_of: dict[SourcePartition, int] = {}
        self._alone: dict[SourcePartition, tuple[tuple[Covered, ...], Tables]] = {}

    def begin(self, held: Mapping[SourcePartition, InMemoryMapping], read_to: Mapping[int, int] | None = None) -> None:
        """Starts with the given mappings, and nothing else.

        Args:
            held: Mappings by source partition.
            read_to: Offsets of the mapping topic, by partition, up to which everything was read anew. An index that has
                not read so far may hold runs that these records cancel. None: the mappings come from the index.
        """
        self._own = dict(held)
        self._began_at = dict(read_to or {})
        self._others, self._alone = {}, {}

    def sources(self) -> Iterable[SourcePartition]:
        """The source partitions that the pipeline maps."""
        return self._own.keys()

    def held(self, source: SourcePartition) -> InMemoryMapping:
        """The mapping of a source partition in memory."""
        return self._own.get(source, _NOTHING)

    def alone(self, source: SourcePartition) -> tuple[tuple[Covered, ...], Tables]:
        """Coverage and runs in memory; computed again only after a change."""
        if source not in self._alone:
            self._alone[source] = self.held(source).alone()
        return self._alone[source]

    def others_of(self, source: SourcePartition) -> dict[str, PartitionMap]:
        """The maps of a source partition by other pipelines' mappings, by their `group.id`."""
        found = ((group, held) for (group, at), held in self._others.items() if at == source)
        return {group: PartitionMap(source, None, *held.alone()) for group, held in found}

    def read_to(self, source: SourcePartition) -> Mapping[int, int]:
        """Offsets of the mapping topic, by partition, up to which an index must have read to fit these mappings."""
        recopied = self.held(source).recopied
        return {p: max(self._began_at.get(p, 0), recopied.get(p, 0)) for p in {*self._began_at, *recopied}}

    def doubt(self) -> None:
        """Marks all mappings as doubtful, because mapping records were deleted before they were read."""
        for held in (*self._own.values(), *self._others.values()):
            held.is_doubtful = True

    def take(self, records: Records) -> None:
        """Adds mapping records.

        Raises:
            LateRecord: A record is older than one that was folded before.
            NotInMemory: A record cancels runs that are not in memory.
        """
        for (group, source), placed in records.items():
            try:
                self.add(group, source, placed)
            except (LateRecord, NotInMemory):
                if (group, source) not in self._others:
                    raise
                del self._others[group, source]  # the next records show again that there is another mapping

    def see(self, group: str, source: SourcePartition) -> None:
        """Notes that a pipeline maps a source partition, before its records are added."""
        self._owner(source, group)

    def add(self, group: str, source: SourcePartition, placed: Sequence[Placed]) -> None:
        """Adds mapping records of one source partition.

        Raises:
            LateRecord: A record is older than one that was folded before; the partition's mapping is invalid now.
            NotInMemory: A record cancels runs that are not in memory.
        """
        if group != self._owner(source, group):
            self._others.setdefault((group, source), InMemoryMapping()).extend(placed, self._mark_every)
            return
        self._partition_of[source] = placed[-1].partition
        self._own.setdefault(source, InMemoryMapping(with_dropped=self._with_dropped)).extend(placed, self._mark_every)
        self._alone.pop(source, None)

    def group_of(self, source: SourcePartition) -> str:
        """The `group.id` of the pipeline whose mappings of a source partition count."""
        return self._owners.get(source, self._group)

    def _owner(self, source: SourcePartition, group: str) -> str:
        return self._owners.setdefault(source, group) if self._group == ANY_GROUP else self._group

    def drop(self, older_than: int | None, log_starts: Mapping[int, int], most_runs: int | None) -> None:
        """Drops the oldest runs; arguments as for `InMemoryMapping.drop`, but with a log start for each partition."""
        everything = [*self._own.items(), *((source, held) for (_, source), held in self._others.items())]
        for source, held in everything:
            if held.drop(older_than, log_starts.get(self._partition_of.get(source, -1), 0), most_runs):
                self._alone.pop(source, None)
