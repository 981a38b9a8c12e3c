"""Updates an index in rounds: read, cut, merge, prune, switch. `Jobs` runs the heavy work, on Spark or otherwise.

Each round writes one segment of new records, a merged one when it is due, and the table of portions; it switches the
manifest last. A crash anywhere leaves the version before; the next update removes unused files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from k2k_assets.core.object_folder import ObjectFolder
from k2k_assets.kafka.offset_ranges import OffsetRange
from k2k_assets.mapping.algebra.fold import LateRecord
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.jobs import Jobs
from k2k_assets.mapping.index.manifest import (
    IndexIdentity,
    IndexSuperseded,
    IndexUnusable,
    Manifest,
    new_name,
    read_manifest,
    switch,
)
from k2k_assets.mapping.index.merging import Ageing, candidates, to_merge
from k2k_assets.mapping.index.portion_columns import (
    by_segment,
    files_of,
    mapped_of,
    of_segments,
    pruned,
    rows_of,
    runs_of,
    without_coverage,
)
from k2k_assets.mapping.index.portion_table import PORTIONS, read_portions, write_portions
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets.mapping.index.segment_files import SegmentReader
from k2k_assets.mapping.index.state import IndexState
from k2k_assets.mapping.index.unread import Unread, missing_from
from k2k_assets.mapping.index.versions import has_all_files, remove_what_nobody_needs

# Bytes of each partition of the mapping topic in one round, so that a build from the start fits a task's memory.
MOST_BYTES = 32 * 1024 * 1024

_log = logging.getLogger(__name__)


def now_ms() -> int:
    """The present time in milliseconds since the epoch."""
    return int(time.time() * 1000)


@dataclass(frozen=True)
class Update:
    """One update of an index.

    Attributes:
        root: Directory of the index.
        pipeline: Name of the pipeline.
        group: Group of the pipeline.
        mapping_topic: Mapping topic of the pipeline.
        retention: `index.retention` in milliseconds; None keeps everything.
        jobs: Runs the heavy work.
        find_unread: Finds what an index has not read yet; with None, all that a build from the start reads.
        clock: Milliseconds since the epoch.
    """

    root: IndexRoot
    pipeline: str
    group: str
    mapping_topic: str
    retention: int | None
    jobs: Jobs
    find_unread: Callable[[IndexIdentity | None], Unread]
    clock: Callable[[], int] = now_ms

    def run(self, before: Manifest | None) -> Manifest:
        """Extends the index by all mapping records that are committed now.

        Args:
            before: The current manifest; None if there is no index.

        Raises:
            IndexUnusable: The index must be built from the start, and the mapping topic has lost records of it.
            IndexSuperseded: In an object store another build was quicker; begin again.
            OSError: The index cannot be read or written.
        """
        if before:
            remove_what_nobody_needs(self.root, before)
        state = self._state(before) if before else IndexState()
        if state is None:
            self._ensure_newest(before)
            _log.warning("files of the mapping index in %s are missing: built from the start", self.root)
            return self._anew(before, "files of it are missing")
        new = self.find_unread(before)
        if before and (new.lost != before.lost or new.mapping_topic_id != before.mapping_topic_id):
            state = state.doubted()
        if before and not new.ranges and not self._pruned(state, new)[1]:
            return self._seen(before, new, state)
        try:
            return self._rounds(state, new, before, MOST_BYTES)
        except LateRecord as late:
            _log.info("a mapping record is older than what was folded before it (%s): built from the start", late)
        current = read_manifest(self.root)
        # In one round, because records of a source partition that lie in several partitions are sorted only together.
        return self._from_the_start(current, "a mapping record is older than what is in it", None)

    def _ensure_newest(self, before: Manifest | None) -> None:
        """Files may be gone because other builds, which no lock keeps away, have replaced the version meanwhile."""
        if isinstance(self.root, ObjectFolder) and read_manifest(self.root) != before:
            raise IndexSuperseded(f"another process has updated the index in {self.root}")

    def replace(self, old: IndexIdentity) -> Manifest:
        """Builds the index of an older release anew.

        Raises:
            IndexUnusable: The mapping topic has lost records of that index.
        """
        _log.info("the index in %s is of an older release: built from the start", self.root)
        return self._anew(old, "it is of an older release")

    def _anew(self, old: IndexIdentity | None, why: str) -> Manifest:
        try:
            return self._from_the_start(old, why, MOST_BYTES)
        except LateRecord:
            return self._from_the_start(old, why, None)

    def _from_the_start(self, old: IndexIdentity | None, why: str, most: int | None) -> Manifest:
        new = self.find_unread(None)
        gone = missing_from(new, old) if old else None
        if gone:
            raise IndexUnusable(
                f"the mapping index in {self.root} must be built anew, since {why}, but {gone}: what the index holds "
                "of that would be lost. Delete the directory to build it from what is left"
            )
        state = IndexState.of(old, PORTIONS.empty_table()) if isinstance(old, Manifest) else IndexState()
        return self._rounds(state.emptied(), new, None, most)

    def _state(self, before: Manifest) -> IndexState | None:
        """The state of the current version; None if files that it names are gone."""
        try:
            portions = read_portions(self.root, before.directory)
        except FileNotFoundError:
            return None
        return IndexState.of(before, portions) if has_all_files(self.root, files_of(portions)) else None

    def _seen(self, before: Manifest, new: Unread, state: IndexState) -> Manifest:
        """The manifest of the same version with the present positions."""
        seen = {"positions": new.positions, "offsets": new.offsets, "lost": new.lost}
        topics = {"mapping_topic_id": new.mapping_topic_id, "earlier_topics": new.earlier_topics}
        doubtful = {"doubtful": sorted(state.doubtful)}
        manifest = before.model_copy(update={**seen, **topics, **doubtful})
        if isinstance(self.root, ObjectFolder):
            if manifest == before:
                return before
            # There each manifest has a number of its own.
            manifest = manifest.model_copy(update={"number": before.number + 1})
        switch(self.root, manifest)
        return manifest

    def _rounds(self, state: IndexState, new: Unread, before: Manifest | None, most: int | None) -> Manifest:
        left: Sequence[OffsetRange] = new.ranges
        done = replace(new, positions=before.positions if before else [])
        while True:
            if left:
                state, left = self._extended(state, left, most)
            if not left:
                done = replace(done, positions=new.positions)
            # Prune before merging, so that expired portions are not written again.
            state = self._merged(state.pruned_to(*self._pruned(state, done)))
            offsets = {**new.offsets, **{rest.partition: rest.start for rest in left}}
            manifest = self._manifest(state, replace(done, offsets=offsets))
            write_portions(self.root, manifest.directory, state.portions)
            switch(self.root, manifest)
            remove_what_nobody_needs(self.root, manifest)
            if not left:
                return manifest
            state = replace(state, number=manifest.number, kept=[*state.kept, manifest.directory])

    def _extended(
        self, state: IndexState, ranges: Sequence[OffsetRange], most: int | None
    ) -> tuple[IndexState, Sequence[OffsetRange]]:
        name = new_name(state.number + 1)
        written = self.jobs.fold(self.root, name, ranges, most)
        stretches = written.stretches
        if most is None:
            stretches = [without_coverage(portions, written.passed_over) for portions in stretches]
        state = state.extended(name, stretches, SegmentReader(self.root).read)
        return state.doubted_where(written.passed_over, written.read_behind), written.left

    def _merged(self, state: IndexState) -> IndexState:
        runs = by_segment(state.portions, rows_of(state.portions))
        old = to_merge(candidates(state.segments, runs), self._ageing())
        if not old:
            return state
        name = new_name(state.number + 1)
        rows = state.portions.filter(of_segments(state.portions, old))
        portions = self.jobs.merge(self.root, name, rows)
        return state.merged(old, name, portions)

    def _pruned(self, state: IndexState, new: Unread) -> tuple[pa.Table, dict[SourcePartition, int]]:
        ageing = self._ageing()
        if ageing is None:
            return state.portions, {}
        return pruned(state.portions, ageing.expired, new.source_cluster, new.positions)

    def _ageing(self) -> Ageing | None:
        return None if self.retention is None else Ageing.of(self.clock(), self.retention)

    def _manifest(self, state: IndexState, new: Unread) -> Manifest:
        return Manifest(
            pipeline=self.pipeline,
            group=self.group,
            source_cluster=new.source_cluster,
            target_cluster=new.target_cluster,
            mapping_topic=self.mapping_topic,
            mapping_topic_id=new.mapping_topic_id,
            earlier_topics=new.earlier_topics,
            offsets=new.offsets,
            directory=new_name(state.number + 1),
            previous=state.kept,
            number=state.number + 1,
            identity=state.identity,
            time=self.clock(),
            records_read=state.records_read,
            runs=int(runs_of(state.portions).sum()),
            mapped=int(mapped_of(state.portions).sum()),
            segments=state.segments,
            positions=new.positions,
            lost=new.lost,
            pruned=state.pruned,
            doubtful=sorted(state.doubtful),
        )
