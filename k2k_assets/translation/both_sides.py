"""Which target partitions are written by others as well, and the mappings of the pipeline back that answer there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from k2k_assets.control.mapping_records import BothWays
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.live.live import Cut
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.reverse import as_bidirectional, is_told_by_mappings
from k2k_assets.pipeline.sections.bidirectional import Mode
from k2k_assets.translation.other_way import OtherWay
from k2k_assets.translation.reverse_mappings import ReverseMappings


class Mappings(Protocol):
    """The mappings of a pipeline."""

    def ways_of(self, source: SourcePartition) -> frozenset[BothWays | None]:
        """As `LiveMappings.ways_of`."""
        ...

    def other_cluster_into(self, topic: str) -> str | None:
        """As `LiveMappings.other_cluster_into`."""
        ...


class BothSides:
    """Follows the mappings of the pipeline back where records are written on the target as well.

    The file of a bidirectional pipeline says that they are. With a file for a mapper alone the mapping records say it,
    partition by partition. Only one thread at a time may use it.

    Args:
        pipeline: The pipeline.
        source: Its source cluster.
        target: Its target cluster.
        mappings: Its mappings.
    """

    def __init__(self, pipeline: Pipeline, source: Cluster, target: Cluster, mappings: Mappings) -> None:
        self._pipeline = pipeline
        self._clusters = source, target
        self._mappings = mappings
        self._shared: frozenset[SourcePartition] = frozenset()
        self._reverse: ReverseMappings | None = None

    def catch_up(
        self,
        sources: Iterable[SourcePartition],
        patience: float = 30.0,
        topics: Collection[str] = (),
        reachable: bool = True,
    ) -> Cut | None:
        """Reads the mappings of the pipeline back to their present end, where they are needed.

        Args:
            sources: The mapped source partitions, at a cut that was taken before.
            patience: As for `ReverseMappings.catch_up`.
            topics: As for it.
            reachable: Whether the source answers; otherwise nothing is read, and nothing is known.

        Returns:
            The source at the cut of these mappings; None if they are not needed, or cannot be read.

        Raises:
            ClusterUnreachable: The source does not answer, or a transaction hangs.
        """
        pipeline = self._pipeline
        if is_told_by_mappings(pipeline):
            self._shared = shared_partitions(self._mappings, sources)
            pipeline = as_noted(pipeline, self._mappings, self._shared)
        if self._reverse is None and pipeline.shares_targets:
            self._reverse = ReverseMappings(pipeline, *self._clusters, self._mappings.other_cluster_into)
        if self._reverse is None:
            return None
        self._reverse.mode = pipeline.bidirectional.mode
        return self._reverse.catch_up(patience, topics) if reachable else None

    @property
    def other_way(self) -> OtherWay | None:
        """The mappings as they are now, for translations; None if nobody else writes to target topics."""
        if self._reverse is None:
            return None
        return self._reverse.other_way(None if self._pipeline.shares_targets else self._shared)

    def why_unknown(self, target: Target) -> str:
        """Why positions in a target partition that others write to may be unknown, and what to do."""
        return self._reverse.why_unknown(target) if self._reverse else ""

    def close(self) -> None:
        """Closes the clients."""
        if self._reverse:
            self._reverse.close()


def shared_partitions(mappings: Mappings, sources: Iterable[SourcePartition]) -> frozenset[SourcePartition]:
    """The source partitions whose target partitions are written by others too, as their mapping records say."""
    return frozenset(source for source in sources if any(way and way.shared for way in mappings.ways_of(source)))


def as_noted(pipeline: Pipeline, mappings: Mappings, shared: Collection[SourcePartition]) -> Pipeline:
    """A pipeline that is bidirectional if some partitions are shared.

    Args:
        pipeline: From a file for a mapper alone.
        mappings: Its mappings.
        shared: As `shared_partitions`.
    """
    if not shared:
        return pipeline
    modes = {way.mode for source in shared for way in mappings.ways_of(source) if way}
    # Where several are noted, the one that proves less.
    mode: Mode = "cluster" if modes == {"cluster"} else "pipeline"
    return as_bidirectional(pipeline, mode)
