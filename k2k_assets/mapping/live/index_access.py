"""Reads from the index the mappings that a running mapper has not in memory; opens it on demand, and when it grew."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.index import IndexReader, IndexReplaced, IndexUnusable
from k2k_assets.mapping.index.manifest import Manifest
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.reverse import is_told_by_mappings

log = logging.getLogger("k2k.mapping")

# How often to look for a new version of the index, when the open one does not reach far enough.
_REFRESH_SECONDS = 5.0
# Maps with more runs are read anew each time, instead of kept in memory.
_MOST_RUNS_KEPT = 200_000
_UNREADABLE = (IndexReplaced, OSError, pa.ArrowException)
_LookUp = tuple[SourcePartition, int, int]


class IndexAccess:
    """Access to a pipeline's mapping index, if there is one.

    Args:
        pipeline: The pipeline.
        source_cluster: Source cluster id.
        target_cluster: Target cluster id.
        mapping_topic_id: Present topic id of the mapping topic.
        with_dropped: Whether maps have the ranges that were left out on purpose.

    Attributes:
        reader: The version that was opened last; None if there is no index.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source_cluster: str,
        target_cluster: str,
        mapping_topic_id: str,
        with_dropped: bool = False,
    ) -> None:
        self._with_dropped = with_dropped
        self._pipeline = pipeline
        self._topic_id = mapping_topic_id
        self._identity = (pipeline.group, source_cluster, target_cluster, pipeline.offset_mapping.topic)
        self._kept: dict[SourcePartition, tuple[str, int, int, PartitionMap]] = {}
        self._next_look = 0.0
        # By version: what could not be read of it; None: the current version had read less.
        self._unreadable: dict[str, _LookUp | None] = {}
        self._is_missed = self._had_reader = False
        self._waited_for = ""
        self.reader: IndexReader | None = None
        self.refresh()

    @property
    def offsets(self) -> dict[int, int]:
        """First offset that the index has not read, by partition of the mapping topic."""
        manifest = self.reader.manifest if self.reader else None
        return dict(manifest.offsets) if manifest and manifest.mapping_topic_id == self._topic_id else {}

    def doubtful(self) -> set[SourcePartition]:
        """As `IndexReader.doubtful`."""
        return self.reader.doubtful(self._topic_id) if self.reader else set()

    def refresh(self) -> IndexReader | None:
        """Opens the current version, unless it has read less than the open one: see `_has_read_less`.

        None for a file that has to learn from mapping records what it is for: whether records are written on the target
        as well is noted in the records, and lost in the index.
        """
        self._next_look = time.monotonic() + _REFRESH_SECONDS
        if is_told_by_mappings(self._pipeline):
            return None
        try:
            found = IndexReader.open(self._pipeline)
        except (IndexUnusable, OSError) as reason:
            if self.reader is not None or not self._had_reader:
                log.info("mappings are read from their topic alone, without an index: %s", reason)
            # A disk may come back with the whole index; a deleted index can only be built anew, from the same topic.
            self._is_missed |= self.reader is not None and isinstance(reason, IndexUnusable)
            self.reader = None
            return None
        manifest = found.manifest
        identity = (manifest.group, manifest.source_cluster, manifest.target_cluster, manifest.mapping_topic)
        if identity != self._identity:
            log.warning("the mapping index of %s is not used: it belongs to %s", self._pipeline.name, identity)
            self._is_missed |= self.reader is not None
            self.reader = None
            return None
        if self.reader is None or self.reader.manifest != manifest:
            if self.reader is not None and _has_read_less(manifest, self.reader.manifest):
                if self._waited_for != manifest.directory:
                    log.info("the mapping index of %s has read less than before: it is waited for", self._pipeline.name)
                    self._waited_for = manifest.directory
                self._note_missed()
                return None
            self.reader, self._had_reader = found, True
        return self.reader

    def take_missed(self) -> bool:
        """Whether a version was missing or unreadable since the last call."""
        missed, self._is_missed = self._is_missed, False
        return missed

    def has_grown_to(self, read_to: Mapping[int, int]) -> bool:
        """Whether the index, if there ever was one, has read up to these offsets of the mapping topic by now.

        What could not be read is tried again: a disk may be full for a moment, or a store not answer.
        """
        is_due = self._had_reader and time.monotonic() >= self._next_look
        if is_due and not self._is_readable_to(read_to) and (reader := self.refresh()):
            self._try_again(reader)
        return self._is_readable_to(read_to)

    def _try_again(self, reader: IndexReader) -> None:
        version = reader.manifest.directory
        with suppress(*_UNREADABLE):
            if failed := self._unreadable.get(version):
                reader.partition_map(*failed, self._with_dropped)
            self._unreadable.pop(version, None)

    def _is_readable_to(self, read_to: Mapping[int, int]) -> bool:
        reader = self.reader
        return reader is not None and self._has_read(read_to) and reader.manifest.directory not in self._unreadable

    def below(
        self, source: SourcePartition, lowest: int, since: int, read_to: Mapping[int, int]
    ) -> PartitionMap | None:
        """The index's map of a source partition, for positions from `lowest` to `since`.

        Args:
            source: The source partition.
            lowest: Lowest position that will be looked up.
            since: End of the wanted positions.
            read_to: Offsets of the mapping topic, by partition, up to which the index must have read.

        Returns:
            The map; None if no index has read so far, or if it cannot be read now.
        """
        if time.monotonic() >= self._next_look and not self._reaches(source, since, read_to):
            self.refresh()
        reader = self.reader
        if reader is None or not self._has_read(read_to):
            return None
        version, start, end, kept = self._kept.get(source, ("", 0, 0, None))
        if kept is not None and version == reader.manifest.directory and start <= lowest and end == since:
            return kept
        self._kept.pop(source, None)
        try:
            found = self._read(source, lowest, since, read_to)
        except _UNREADABLE as error:
            log.warning("the mapping index cannot be read, so positions of %s are unknown for now: %s", source, error)
            self._note_missed((source, lowest, since))
            return None
        if found is not None and sum(map(len, found.runs.values())) <= _MOST_RUNS_KEPT:
            assert self.reader
            self._kept[source] = (self.reader.manifest.directory, lowest, since, found)
        return found

    def _read(
        self, source: SourcePartition, lowest: int, since: int, read_to: Mapping[int, int]
    ) -> PartitionMap | None:
        """Reads from the open version; if its files are gone or unreadable, from the current one."""
        assert self.reader
        try:
            return self.reader.partition_map(source, lowest, since, self._with_dropped)
        except _UNREADABLE:
            reader = self.refresh()
            if not reader or not self._has_read(read_to):
                return None
            return reader.partition_map(source, lowest, since, self._with_dropped)

    def _note_missed(self, failed: _LookUp | None = None) -> None:
        assert self.reader
        version = self.reader.manifest.directory
        self._is_missed |= version not in self._unreadable
        self._unreadable[version] = failed or self._unreadable.get(version)

    def _reaches(self, source: SourcePartition, since: int, read_to: Mapping[int, int]) -> bool:
        if self.reader is None or not self._has_read(read_to):
            return False
        try:
            return self.reader.partition_map(source, since, since).covered_end >= since
        except _UNREADABLE:
            return False

    def _has_read(self, read_to: Mapping[int, int]) -> bool:
        offsets = self.offsets
        return all(offsets.get(partition, 0) >= offset for partition, offset in read_to.items())


def _has_read_less(manifest: Manifest, before: Manifest) -> bool:
    """Whether an index is an older copy of what was open before, or is being built anew, in rounds."""
    if manifest.mapping_topic_id != before.mapping_topic_id:
        return False  # which one is read through the offsets that look-ups ask for
    return any(manifest.offsets.get(partition, 0) < offset for partition, offset in before.offsets.items())
