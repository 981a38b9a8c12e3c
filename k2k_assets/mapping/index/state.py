"""The state of an index during an update. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from k2k_assets.control.mapping_records import MappingKey
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.manifest import Manifest, Pruned, Segment, new_identity
from k2k_assets.mapping.index.portion_columns import concerned, extended, mapped_of, replaced, runs_of, sources_of
from k2k_assets.mapping.index.portion_table import PORTIONS
from k2k_assets.mapping.index.portions import Load
from k2k_assets.mapping.index.pruning import noted


@dataclass(frozen=True, slots=True)
class IndexState:
    """The state of an index during an update; each step returns a new state.

    Attributes:
        portions: Table of portions: columns `portion_table.PORTIONS`, sorted by source partition and order.
        segments: Segments, oldest first.
        pruned: Notes of what `index.retention` has removed.
        records_read: Number of mapping records folded in.
        number: Number of the newest version.
        kept: Versions that readers may have open.
        doubtful: See `Manifest.doubtful`.
        identity: See `Manifest.identity`.
    """

    portions: pa.Table = field(default_factory=PORTIONS.empty_table)
    segments: list[Segment] = field(default_factory=list)
    pruned: list[Pruned] = field(default_factory=list)
    records_read: int = 0
    number: int = 0
    kept: list[str] = field(default_factory=list)
    doubtful: frozenset[SourcePartition] = frozenset()
    identity: str = field(default_factory=new_identity)

    @classmethod
    def of(cls, manifest: Manifest, portions: pa.Table) -> IndexState:
        """The state of a version."""
        m = manifest
        doubtful = frozenset(SourcePartition(*source) for source in m.doubtful)
        return cls(portions, m.segments, m.pruned, m.records_read, m.number, [m.directory], doubtful, m.identity)

    def doubted(self) -> IndexState:
        """Marks all source partitions as doubtful, because mapping records were deleted before they were read."""
        return replace(self, doubtful=self.doubtful.union(sources_of(self.portions)))

    def doubted_where(
        self, passed_over: Collection[MappingKey | None], read_behind: Collection[MappingKey]
    ) -> IndexState:
        """Marks source partitions as doubtful of which mapping records were passed over (`NewSegment`)."""
        return replace(self, doubtful=self.doubtful | concerned(self.portions, passed_over, read_behind))

    def emptied(self) -> IndexState:
        """Makes an empty state, to build the index from the start."""
        return IndexState(number=self.number, kept=self.kept)

    def extended(self, name: str, stretches: Sequence[pa.Table], load: Load) -> IndexState:
        """Adds a new segment, which cuts the portions of older ones.

        Args:
            name: Its name.
            stretches: Its portions, as `NewSegment.stretches`.
            load: Reads a piece that a cut goes through.

        Raises:
            LateRecord: See `portions.extended`.
        """
        added = pa.concat_tables(stretches)
        if not len(added):
            return self
        state = self
        for number, portions in enumerate(stretches):
            sources = sources_of(portions) if number or state.doubtful else ()
            doubtful = state.doubtful.union(sources) if number else state.doubtful
            state = replace(
                state,
                portions=extended(state.portions, portions, load, doubtful),
                doubtful=state.doubtful.difference(sources),
            )
        return replace(
            state,
            segments=[*self.segments, _segment(name, added)],
            records_read=self.records_read + pc.sum(added["records"]).as_py(),
        )

    def merged(self, old: Sequence[str], name: str, portions: pa.Table) -> IndexState:
        """Replaces neighbouring segments by one."""
        place = [segment.name for segment in self.segments].index(old[0])
        rest = [segment for segment in self.segments if segment.name not in old]
        return replace(
            self,
            portions=replaced(self.portions, old, portions),
            segments=[*rest[:place], _segment(name, portions), *rest[place:]],
        )

    def pruned_to(self, portions: pa.Table, before: dict[SourcePartition, int]) -> IndexState:
        """Keeps the portions that pruning left; see `pruning.pruned`."""
        return replace(self, portions=portions, pruned=noted(self.pruned, before)).without_empty_segments()

    def without_empty_segments(self) -> IndexState:
        """Drops segments without valid portions."""
        used = set(self.portions["segment"].unique().to_pylist())
        return replace(self, segments=[segment for segment in self.segments if segment.name in used])


def _segment(name: str, portions: pa.Table) -> Segment:
    return Segment(
        name=name,
        runs=int(runs_of(portions).sum()),
        mapped=int(mapped_of(portions).sum()),
        since=pc.min(portions["since"]).as_py(),
        until=pc.max(portions["until"]).as_py(),
    )
