"""Follows a pipeline's mappings for the translation of groups, and takes cuts through both clusters.

```
 look        positions of groups      cut: L, commit topic, mapping topic        the look again
 which topics and partitions                                                    the same?
```

Answers are right only if the second look shows the same. A source partition that is copied for the first time meanwhile
has records below L that no known mapping covers. If a topic is created anew meanwhile, the positions are those of the
former topic.

Of a source topic that may not be seen, because its permissions went when it left the file, the source does not tell
either which groups read it. So nothing is known of the target topics that it was copied to, and all others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from k2k_assets.control.commit_record import EVERYWHERE, CommitRecord
from k2k_assets.control.mapping_records import BothWays
from k2k_assets.core.errors import ClusterUnreachable, Hidden, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper_file import routing_of
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.groups import Ends
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.live.live import LiveMappings
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.routing import Routing
from k2k_assets.translation.groups import CopiedAtCut
from k2k_assets.translation.other_pipelines import IdentifiedTopic, OtherPipeline, OtherSources

log = logging.getLogger("k2k.groups")

MayUse = Callable[[set[str], set[str]], None]
"""Raises `Refused` if a permission is missing on some source topics or target topics."""


class Changed(ClusterUnreachable):
    """The mapped source partitions have changed between a look and its cut; the caller has to look again."""


class FollowedMappings:
    """Live mappings of the source partitions with today's topic ids. Only one thread at a time may use it.

    Args:
        pipeline: The pipeline.
        source: The cluster that it copies from.
        target: The cluster that it copies to.
        others: Whether other pipelines' mappings of the same source partitions are followed too.
        patience: Give up after so many seconds without a mapping record.
        may_use: Called once with the mapped topics, before they are described.

    Attributes:
        mapped: The mapped source partitions, with the topic ids that the source had at the last look.
        known: All source partitions that are mapped or copied, including those of topics that were created anew since.
        routing: The routing, as known at the last look.
        others: Source topics that other pipelines copy into the same target topics, as known at the last look.
        source_cluster: Id of the source cluster.

    Raises:
        ClusterUnreachable: A cluster does not answer, or a transaction hangs.
        Refused: There are no mappings, or some cannot be read.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: Cluster,
        target: Cluster,
        others: bool = False,
        patience: float = 30.0,
        may_use: MayUse | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._source = source
        self._patience = patience
        self.mapped: dict[TopicPartition, SourcePartition] = {}
        self._hidden: dict[str, Hidden] = {}
        self.known: frozenset[TopicPartition] = frozenset()
        self.routing = pipeline.routing
        self.others: OtherSources = {}
        self.source_cluster = source.cluster_id()
        self._live = LiveMappings(pipeline, self.source_cluster, target, others)
        try:
            self._live.catch_up((), patience)
            if may_use:
                self._ask(may_use)
            self.refresh()
        except BaseException:
            self._live.close()
            raise

    def refresh(self) -> set[str]:
        """Looks which source partitions are mapped; the caller reads positions after this and before `cut`.

        Returns:
            The mapped topics, including those that were created anew since, and the topics of `others`.

        Raises:
            ClusterUnreachable: The source does not answer.
        """
        self.mapped, self.routing, hidden = self._seen()
        for name in hidden.keys() - self._hidden.keys():
            log.warning(
                "groups stay where they are in what '%s' was copied to, until this client may Describe it: %s",
                name, hidden[name],
            )  # fmt: skip
        self._hidden = hidden
        self.known = frozenset(TopicPartition(source.topic, source.partition) for source in self._live.sources())
        self.others = self._beside()
        return {tp.topic for tp in self.known} | {topic for sources in self.others.values() for topic in sources}

    def cut(self) -> CopiedAtCut:
        """Takes a cut: the copied partitions now, without `source_ends`. Then `map_of` returns maps at this cut.

        Raises:
            Changed: Other source partitions are mapped than at the last look.
            ClusterUnreachable: A cluster does not answer.
            Refused: A cluster refuses, or a control topic was deleted or created anew.
        """
        found = self._live.catch_up(_targets(self.routing, (tp.topic for tp in self.mapped)), self._patience)
        mapped, routing, hidden = self._seen()
        others = self._beside()
        if (mapped, routing, others, *hidden) != (self.mapped, self.routing, self.others, *self._hidden):
            topics = {tp.topic for tp in {*mapped, *self.mapped} if mapped.get(tp) != self.mapped.get(tp)}
            topics |= {to.name for to in {*others, *self.others} if others.get(to) != self.others.get(to)}
            raise Changed(
                f"{self._source}: partitions began to be copied, or topics were deleted or created anew, while "
                f"positions were looked at ({', '.join(sorted(topics)[:5]) or 'where records go'}). Try again"
            )
        newest = self._live.copied()
        positions = {
            tp: newest[source].position if source in newest else self._live.map_of(source).covered_end
            for tp, source in self.mapped.items()
        }
        ends = {tp: Ends(found.starts[tp], end) for tp, end in found.stable.items() if tp in found.starts}
        offline = {**found.offline_partitions, **self._of_hidden(ends)}
        return CopiedAtCut(positions, ends, found.topic_ids, offline_partitions=offline)

    def _of_hidden(self, targets: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Those of the target partitions to whose topics hidden source topics are, or were, copied, with the reason."""
        into = {self.routing.target_if_any(name): why for name, why in self._hidden.items()}
        for source in self._live.sources() if self._hidden else ():
            if why := self._hidden.get(source.topic):
                into |= dict.fromkeys((to.topic for to in self._live.map_of(source).runs), why)
        return {tp: str(into[tp.topic]) for tp in targets if tp.topic in into}

    def committed(self) -> dict[TopicPartition, CommitRecord]:
        """The newest commit record of each source partition in `mapped`."""
        newest = self._live.copied()
        return {tp: newest[source] for tp, source in self.mapped.items() if source in newest}

    def at_least_once(self) -> set[TopicPartition]:
        """The source partitions in `mapped` that are copied at least once, by the file or by their commit records.

        The file may have been changed before the copy was started anew; or the mapper has a file of its own.
        """
        if not self._pipeline.features.exactly_once:
            return set(self.mapped)
        return {tp for tp, record in self.committed().items() if record.at_least_once}

    def with_copies_at_least_once(self) -> dict[TopicPartition, int]:
        """The source partitions in `mapped` that are copied at least once, or were, into the present target topic.

        Returns:
            `CommitRecord.repeats_below` of each.
        """
        noted = {tp: record.repeats_below for tp, record in self.committed().items()}
        known = {tp: below for tp, below in noted.items() if below is not None}
        return known | dict.fromkeys(self.at_least_once(), EVERYWHERE)

    @property
    def records_read(self) -> int:
        """Number of mapping records read so far."""
        return self._live.records_read

    def mapped_ends(self) -> dict[SourcePartition, int]:
        """The source offset up to which the mappings of each source partition are known."""
        return self._live.mapped_ends()

    def map_of(self, partition: TopicPartition, lowest: int = 0) -> PartitionMap:
        """The map of a source partition in `mapped`, for positions from `lowest` on."""
        return self._live.map_of(self.mapped[partition], lowest)

    def cuts_of(self, partition: TopicPartition) -> Mapping[Target, int]:
        """As `LiveMappings.cuts_of`, of a source partition in `mapped`."""
        return self._live.cuts_of(self.mapped[partition])

    def other_cluster_into(self, topic: str) -> str | None:
        """Id of another source cluster that is copied to a target topic too, as far as the commit topic tells."""
        return self._live.other_cluster_into(topic)

    def ways_of(self, source: SourcePartition) -> frozenset[BothWays | None]:
        """How a source partition was copied (`LiveMappings.ways_of`)."""
        return self._live.ways_of(source)

    def others_of(self, partition: TopicPartition) -> Mapping[str, PartitionMap]:
        """The maps of a source partition in `mapped` by other pipelines' mappings, by their `group.id`."""
        return self._live.others_of(self.mapped[partition])

    def close(self) -> None:
        """Closes the clients."""
        self._live.close()

    def __enter__(self) -> FollowedMappings:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, may_use: MayUse) -> None:
        sources = self._live.sources()
        routing = routing_of(self._pipeline, map(self._live.map_of, sources), self._live.copied())
        # What the file does not select any more need not be permitted any more.
        topics = {source.topic for source in sources if self._pipeline.selection.matches(source.topic)}
        may_use(topics, set(_targets(routing, topics)))

    def _seen(self) -> tuple[dict[TopicPartition, SourcePartition], Routing, dict[str, Hidden]]:
        sources = self._live.sources()
        known, hidden = self._source.seen_async({source.topic for source in sources})()
        mapped = {
            TopicPartition(source.topic, source.partition): source
            for source in sources
            if (topic := known.get(source.topic)) is not None
            if source.topic_id == topic.topic_id
            # Accepted with fewer partitions it has copied nothing of the others; a broker may be late to know one.
            if source.partition < topic.partitions or self._live.map_of(source, 0).runs
        }
        routing = routing_of(self._pipeline, map(self._live.map_of, mapped.values()), self._live.copied())
        return mapped, routing, hidden

    def _beside(self) -> OtherSources:
        records = {
            IdentifiedTopic(target, topic_id): found
            for target in _targets(self.routing, (tp.topic for tp in self.mapped))
            for topic_id, found in self._live.others_into(target).items()
        }
        if not records:  # as for most pipelines: then the many source partitions need not be gone through
            return {}
        own = {source.topic for source in self._live.sources()}
        theirs = {topic for of_target in records.values() for topic in of_target} - own
        hidden = self._source.seen_async(theirs)().hidden
        others = {
            target: {
                topic: OtherPipeline(record.group, record.pipeline, topic in hidden)
                for topic, record in of_target.items()
                if topic not in own
            }
            for target, of_target in records.items()
        }
        return {target: sources for target, sources in others.items() if sources}


def _targets(routing: Routing, topics: Iterable[str]) -> list[str]:
    found = set()
    for topic in set(topics):
        try:
            found.add(routing.target_topic(topic))
        except Refused:
            continue  # no longer routed anywhere
    return sorted(found)
