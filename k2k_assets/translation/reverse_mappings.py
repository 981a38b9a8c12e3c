"""The present mappings of the reverse pipeline, which lie on the source cluster.

```
 pipeline         a ──> b      a group on a stands at 60, and shall continue on b
 the one back     a <── b      it has copied 0 to 59 of b
 b, today         0 ... 39  40 ... 69      its log was cut off at 40, and has grown again: 40 to 59 are other records
```

The mappings tell of b's records as far as its log is the one that was copied: here up to 40.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.lost_copies import cut_below, known_to_cut
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.live.live import Cut, LiveMappings
from k2k_assets.mapping.live.noted_ways import is_exactly_once
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.reverse import reverse_of
from k2k_assets.translation.other_clusters import ThirdClusters
from k2k_assets.translation.other_way import OtherWay
from k2k_assets.translation.source_logs import SourceLogs

log = logging.getLogger("k2k.mapping")

REMEDY = (
    "let the pipeline back run with 'features.offsetMapping: enabled'; if its control topics have other names than in "
    "this file, name them in 'bidirectional.reverse'; if nobody else writes to the target topics, write "
    "'errorHandling.onForeignWriter: fail'"
)


class ReverseMappings:
    """Follows the mappings of whatever copies from the target of a pipeline to its source.

    They are read anew if they are lost. Only one thread at a time may use it.

    Args:
        pipeline: The bidirectional pipeline.
        source: Its source cluster.
        target: Its target cluster.
        other_cluster_into: Returns the id of another source cluster that is copied to a target topic too, if any.

    Attributes:
        mode: `bidirectional.mode` of the pipeline.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: Cluster,
        target: Cluster,
        other_cluster_into: Callable[[str], str | None],
    ) -> None:
        self._pipeline = reverse_of(pipeline)
        self._other_cluster_into = other_cluster_into
        self.mode = pipeline.bidirectional.mode
        self._source, self._target = source, target
        self._origin_cluster = target.cluster_id()
        self._third_clusters = ThirdClusters(pipeline, self._pipeline, source, target)
        self._live: LiveMappings | None = None
        self._logs = SourceLogs(self._pipeline, target)
        self._copied: Mapping[SourcePartition, CommitRecord] = {}
        self._log_ends: dict[TopicPartition, int] = {}
        self._known: frozenset[SourcePartition] = frozenset()
        self._why = ""

    def catch_up(self, patience: float = 30.0, topics: Collection[str] = ()) -> Cut | None:
        """Reads the mappings to their present end; the caller has taken its own cut before.

        Args:
            topics: Topics of the source, for the cut.
            patience: Give up after so many seconds without a record.

        Returns:
            The source at the cut of the mappings; None if they cannot be read.

        Raises:
            ClusterUnreachable: The source does not answer, or a transaction hangs.
        """
        try:
            if self._live is None:
                self._live = LiveMappings(self._pipeline, self._origin_cluster, self._source)
            cut = self._live.catch_up(topics, patience)
            self._known = frozenset(self._live.sources())
            self._copied = self._live.copied()
            self._log_ends = self._ends_of_logs(self._copied)
            if self.mode == "pipeline":
                self._third_clusters.refresh(patience)
            self._why = ""
            return cut
        except Refused as reason:
            if str(reason) != self._why:
                log.warning("the mappings of the reverse pipeline cannot be read: %s", reason)
            self._why = str(reason)
            self.close()
            return None

    def other_way(self, shared: Collection[SourcePartition] | None = None) -> OtherWay:
        """The mappings as they are now, for translations.

        Args:
            shared: As `OtherWay.shared`.
        """
        return OtherWay(self.map_of, self.is_exactly_once, shared)

    def is_exactly_once(self, target: Target) -> bool:
        """Whether all copies of a target partition on the source are mapped, each once, as the control records say.

        What a copy at least once had sent before it crashed, nobody maps.
        """
        live, origin = self._live, self._origin(target)
        return live is not None and is_exactly_once(live.ways_of(origin), self._copied.get(origin))

    def map_of(self, target: Target) -> PartitionMap | None:
        """The map of a target partition, which is copied to the source; None if it is not known."""
        live, origin = self._live, self._origin(target)
        if live is None or origin not in self._known or self._third(target):
            return None
        found = live.map_of(origin, 0)
        if any(self._third_back(to) for to in found.runs):
            return None
        return known_to_cut(found, self._log_end(target))

    def why_unknown(self, target: Target) -> str:
        """Why positions in a target partition may be unknown, and what to do."""
        topic = self._pipeline.offset_mapping.topic
        if third := self._third(target) or self._third_of_source(target):
            return (
                f"{target.topic} is copied from another cluster too ({third}); in bidirectional.mode 'pipeline' nobody "
                "knows which of its records a group has read on the other side. Write 'mode: cluster' in all files"
            )
        if self._why:
            found = f"the mappings of the pipeline back cannot be read: {self._why}"
        elif (mapping := self.map_of(target)) is None:
            found = f"'{topic}' on the {self._source} has no mappings of {target.topic}-{target.partition}"
        elif (cut := cut_below(mapping, self._log_end(target))) is not None:
            where = f"from offset {cut} on" if cut >= 0 else "as far as anybody could tell"
            return (
                f"the log of {target.topic}-{target.partition} is not any more the one that the pipeline back has "
                f"copied, {where}: it was truncated, and other records have the offsets of lost ones, or will have "
                "them. 'k2k status' of the pipeline back shows how to go on as soon as its copy has noticed it"
            )
        else:
            return (
                f"the mappings in '{topic}' on the {self._source} do not tell of all records of {target.topic}-"
                f"{target.partition} where they went: they were copied without mappings, or not at all, or mappings "
                "are lost"
            )
        return f"{found}. Records that are written on the target may be unread: {REMEDY}"

    def close(self) -> None:
        """Closes the clients."""
        if self._live:
            self._live.close()
            self._live = None

    def _ends_of_logs(self, records: Mapping[SourcePartition, CommitRecord]) -> dict[TopicPartition, int]:
        """Up to where the logs of the target are those that were copied back (`LogEnds.offsets`).

        Others copy back as well, or once did: of topics that are gone, or may not be seen, nothing is asked.
        """
        there = self._target.seen_async({source.topic for source in records})().topics
        copied = {
            record.source: record
            for source, record in records.items()
            if (topic := there.get(source.topic)) is not None
            if source.topic_id == topic.topic_id
        }
        return self._logs.ends(copied, copied).offsets

    def _log_end(self, target: Target) -> int | None:
        """Up to where the log of a target partition is the one that was copied back; None if nothing is known."""
        return self._log_ends.get(TopicPartition(target.topic, target.partition))

    def _third(self, target: Target) -> str | None:
        # In this mode the pipeline back leaves out what came from any cluster, and not from the source alone.
        if self.mode != "pipeline":
            return None
        return self._other_cluster_into(target.topic) or self._third_clusters.into_target(target)

    def _third_back(self, to: Target) -> str | None:
        """Id of another cluster that is copied to a topic of the source as well."""
        if self._live is None or self.mode != "pipeline":
            return None
        return self._live.other_cluster_into(to.topic) or self._third_clusters.into_source(to)

    def _third_of_source(self, target: Target) -> str | None:
        if self._live is None or self._origin(target) not in self._known:
            return None
        runs = self._live.map_of(self._origin(target), 0).runs
        return next((third for to in runs if (third := self._third_back(to))), None)

    def _origin(self, target: Target) -> SourcePartition:
        return SourcePartition(self._origin_cluster, target.topic, target.topic_id, target.partition)
