"""Which other clusters are copied to topics of a cluster as well, as all commit topics tell that can be seen there.

```
 cluster b     commits of a -> b          read with the mappings
               commits of c -> b          another name: found by the settings that k2k creates commit topics with
```

Not found is a commit topic that somebody created with other settings, or that this client may not see or read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from k2k_assets.control.commit_record import CommitRecord, is_other_kind, parse_key
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.kafka.messages import Message
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.pipeline import Pipeline
from k2k_assets.topics.others_control_topics import may_hold_commits

log = logging.getLogger("k2k.mapping")

LOOK_SECONDS = 30.0
"""A look at all topics' settings and ends is not for each poll."""


class OtherClusters:
    """Reads the commit topics of other pipelines. Only one thread at a time may use it.

    Args:
        pipeline: A pipeline whose source is the cluster: it has the settings of the clients.
        cluster: The cluster.
        known: Id of the cluster that is known to be copied to it.
        own: The control topics that others read.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        cluster: Cluster,
        known: str,
        own: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._cluster = cluster
        self._known = known
        self._clock = clock
        self._next = float("-inf")
        self._passed_over = set(own)
        self._commits: dict[str, str] = {}  # the topic id that each was read under
        self._unreadable: set[str] = set()
        self._reached: dict[TopicPartition, int] = {}
        self._into: dict[tuple[str, str], str] = {}

    def refresh(self, patience: float) -> None:
        """Looks for commit topics, and reads them to their present end, unless that was done a moment ago.

        Args:
            patience: Longest time for the reading, in seconds.

        Raises:
            ClusterUnreachable: The cluster does not answer.
        """
        if self._clock() < self._next:
            return
        self._sort(self._cluster.topics().keys() - self._passed_over - self._commits.keys())
        there = self._cluster.describe_async(self._commits, partly=True)()
        for topic in there.values():
            self._begin(topic)
        partitions = [TopicPartition(topic.name, n) for topic in there.values() for n in range(topic.partitions)]
        ends = self._cluster.led_offsets(partitions, "latest").offsets
        behind = {tp: end for tp, end in ends.items() if self._reached.get(tp, 0) < end}
        if behind:
            self._read(behind, Deadline(patience))
        self._next = self._clock() + LOOK_SECONDS

    def into(self, target: Target) -> str | None:
        """Id of another cluster that is copied to a topic; None if none is known."""
        return self._into.get((target.topic, target.topic_id))

    def _sort(self, names: Collection[str]) -> None:
        if not names:
            return
        try:
            configs = self._cluster.topic_configs(names, only_changed=False, partly=True)
        except K2KError as error:
            log.debug("whether more clusters are copied to the %s is not known: %s", self._cluster, error)
            return
        # Of the others nothing is told now: they are looked at again.
        self._commits |= {name: "" for name, config in configs.items() if may_hold_commits(config)}
        self._passed_over |= configs.keys() - self._commits.keys()

    def _begin(self, topic: TopicDescription) -> None:
        """Reads a topic from its start if it is another one than was read before."""
        if self._commits[topic.name] != topic.topic_id:
            self._commits[topic.name] = topic.topic_id
            self._reached = {tp: offset for tp, offset in self._reached.items() if tp.topic != topic.name}

    def _read(self, ends: Mapping[TopicPartition, int], deadline: Deadline) -> None:
        """Reads all topics with one client; each by itself if one of them may not be read."""
        try:
            self._read_some(ends, deadline)
        except K2KError as error:
            topics = {tp.topic for tp in ends}
            if len(topics) == 1:
                level = logging.DEBUG if topics <= self._unreadable else logging.WARNING
                log.log(level, "which clusters %s tells of is not known: %s", *topics, error)
                self._unreadable |= topics
                return
            for topic in sorted(topics):
                self._read({tp: end for tp, end in ends.items() if tp.topic == topic}, deadline)

    def _read_some(self, ends: Mapping[TopicPartition, int], deadline: Deadline) -> None:
        new = self._cluster.led_offsets([tp for tp in ends if tp not in self._reached], "earliest").offsets
        starts = {tp: self._reached.get(tp, new.get(tp, 0)) for tp in ends}
        properties = self._pipeline.client_properties("source", "consumer")
        with LogReader(properties, starts, committed_only=True) as reader, suppress(NotReadToTheEnd):
            for batch in reader.read_until(ends, deadline):
                self._take(batch)
                self._reached.update(reader.reached)

    def _take(self, batch: Collection[Message]) -> None:
        for message in batch:
            if is_other_kind(message.key()) or message.value() is None:
                continue
            # It is no matter of this pipeline whether each record can be read.
            with suppress(ValueError):
                _, cluster, _ = parse_key(message.key(), name := message.topic() or "")
                if cluster != self._known:
                    record = CommitRecord.parse(message.key(), message.value(), name)
                    self._into[record.target_topic, record.target_topic_id] = cluster


class ThirdClusters:
    """Finds third clusters that are copied to the topics of a bidirectional pipeline, on either side.

    In `bidirectional.mode: pipeline` a copy does not tell of which cluster it is, and the pipeline back leaves out the
    copies of all clusters. So nobody knows which of them a group has read on the other side.

    Args:
        pipeline: The pipeline.
        reverse: The pipeline back.
        source: The source cluster.
        target: The target cluster.
    """

    def __init__(self, pipeline: Pipeline, reverse: Pipeline, source: Cluster, target: Cluster) -> None:
        self._on_target = OtherClusters(reverse, target, source.cluster_id(), _control_topics(pipeline))
        self._on_source = OtherClusters(pipeline, source, target.cluster_id(), _control_topics(reverse))

    def refresh(self, patience: float) -> None:
        """As `OtherClusters.refresh`, on both sides."""
        self._on_target.refresh(patience)
        self._on_source.refresh(patience)

    def into_target(self, target: Target) -> str | None:
        """Id of a third cluster that is copied to a topic on the target; None if none is known."""
        return self._on_target.into(target)

    def into_source(self, target: Target) -> str | None:
        """Id of a third cluster that is copied to a topic on the source; None if none is known."""
        return self._on_source.into(target)


def _control_topics(pipeline: Pipeline) -> list[str]:
    coordination = pipeline.coordination
    return [coordination.commit.topic, coordination.assignment.topic, pipeline.offset_mapping.topic]
