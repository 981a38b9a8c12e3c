"""Looks for topics and partitions that the source has got since a run began."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, K2KError, Refused
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.planning import ClusterSnapshot, prepare
from k2k_assets.topics.selection import resolve_topics

log = logging.getLogger("k2k.replication")

# The driver does nothing else meanwhile; the next look goes on behind the last one tried.
_ONE_BY_ONE_SECONDS = 5.0


class NewTopics:
    """Asks the source each `sync.metadataInterval`.

    Args:
        pipeline: What it selects.
        source: The source cluster.
        target: The target cluster, which gets what the new topics need.
        only: Only these source topics; all that the pipeline selects if None.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: Cluster,
        target: Cluster,
        only: Collection[str] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._clusters = source, target
        self._only = only
        self._clock = clock
        self._interval = pipeline.sync.metadata_interval.total_seconds()
        self._next = clock() + self._interval
        self._said = ""
        self._last_tried = ""

    def refresh(self, snapshot: ClusterSnapshot) -> ClusterSnapshot | None:
        """The clusters as they are now, if there is something new to copy and it is time to look; else nothing.

        What stands against copying it is logged, and does not disturb what is copied already.
        """
        if self._clock() < self._next:
            return None
        for cluster in self._clusters:
            cluster.renew_if_disturbed()  # it could create nothing for the rest of the run
        try:
            new = self._new(snapshot)
            if not new:
                return None
            log.info("new on the source: %s", ", ".join(new.values()))
            return self._with(snapshot, list(new))
        except K2KError as error:
            self._say(str(error))
            return None
        finally:
            self._next = self._clock() + self._interval

    def _new(self, snapshot: ClusterSnapshot) -> dict[str, str]:
        """Topics that are new or have new partitions, in words."""
        found = resolve_topics(self._pipeline, self._clusters[0], partly=True)
        known = {topic: count for topic, (_, count) in snapshot.topics.items()}
        return {
            topic: f"{topic} ({f'{known[topic]} to ' if topic in known else ''}{plural(count, 'partition')})"
            for topic, count in found.items()
            if count > known.get(topic, 0) and (self._only is None or topic in self._only)
        }

    def _with(self, snapshot: ClusterSnapshot, names: Sequence[str]) -> ClusterSnapshot | None:
        """With those of them that can be copied: one holds up no others."""
        try:
            return snapshot.with_new(prepare(self._pipeline, *self._clusters, names))
        except Refused as error:
            if len(names) == 1:
                raise
            log.debug("what is new is looked at topic by topic: %s", error)
        found, refused, patience = snapshot, list[str](), Deadline(_ONE_BY_ONE_SECONDS)
        for name in sorted(names, key=lambda name: (name <= self._last_tried, name)):
            if patience.expired():
                break
            self._last_tried = name
            try:
                found = found.with_new(prepare(self._pipeline, *self._clusters, [name]))
            except Refused as error:
                refused.append(str(error))
            except ClusterUnreachable as error:
                refused.append(str(error))
                break
        self._say("; ".join(refused))
        return None if found is snapshot else found

    def _say(self, words: str) -> None:
        """The same is said once."""
        if words and words != self._said:
            log.error("what is new on the source cannot be copied yet: %s", words)
        self._said = words
