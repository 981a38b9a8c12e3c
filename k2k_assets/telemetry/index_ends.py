"""How far the mapping index on disk reaches, read when somebody looks at the metrics, not in the mapper's thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index import IndexReader, IndexUnusable
from k2k_assets.pipeline import Pipeline

# The index grows once in some minutes; it may lie in an object store.
_KEPT_SECONDS = 15.0


class IndexEnds:
    """Reads the covered end of each source partition in a pipeline's index.

    Args:
        pipeline: The pipeline.
        clock: Tells the age of the last look.
    """

    def __init__(self, pipeline: Pipeline, clock: Clock = SYSTEM_CLOCK) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._turn = threading.Lock()
        self._version = ""
        self._ends: dict[SourcePartition, int] = {}
        self._until = float("-inf")

    def read(self) -> Mapping[SourcePartition, int]:
        """Source offsets up to which the index covers; empty if there is no index, or it cannot be read now."""
        with self._turn:
            if self._clock.monotonic() >= self._until:
                self._look()
                self._until = self._clock.monotonic() + _KEPT_SECONDS
            return self._ends

    def _look(self) -> None:
        try:
            reader = IndexReader.open(self._pipeline)
            if reader.manifest.directory != self._version:
                maps = {source: reader.last_runs(source) for source in reader.sources()}
                self._ends = {source: each.covered_end for source, each in maps.items()}
                self._version = reader.manifest.directory
        except (IndexUnusable, OSError):
            self._ends, self._version = {}, ""
