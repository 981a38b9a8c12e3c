"""Looks for topics and partitions that were created on the source since a run began."""

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
from k2k_assets.topics.selection import select_topics

log = logging.getLogger("k2k.replication")

# Topics are tried one by one for so long, because the driver does nothing else meanwhile; the next look continues.
_ONE_BY_ONE_SECONDS = 5.0


class NewTopics:
    """Asks the source for new topics and partitions each `sync.metadataInterval`.

    Args:
        pipeline: Selects the topics.
        source: The source cluster.
        target: The target cluster, on which missing topics are created.
        only: Only these source topics; None: all that the pipeline selects.
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
        self._doubts: tuple[str, ...] = ()
        self._last_tried = ""

    def refresh(self, snapshot: ClusterSnapshot) -> ClusterSnapshot | None:
        """Returns a new snapshot if it is time to look and there is something new to copy; else None.

        If a new topic cannot be copied, that is logged, and the topics that are copied already go on.
        """
        if self._clock() < self._next:
            return None
        for cluster in self._clusters:
            cluster.renew_if_disturbed()  # a disturbed client may fail to create topics for the rest of the run
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
        """Topics that are new or have new partitions, each with a text for the log."""
        found = select_topics(self._pipeline, self._clusters[0], partly=True)
        self._warn(found.doubts)
        known = {topic: count for topic, (_, count) in snapshot.topics.items()}
        return {
            topic: f"{topic} ({f'{known[topic]} to ' if topic in known else ''}{plural(count, 'partition')})"
            for topic, count in found.topics.items()
            if count > known.get(topic, 0) and (self._only is None or topic in self._only)
        }

    def _with(self, snapshot: ClusterSnapshot, names: Sequence[str]) -> ClusterSnapshot | None:
        """The snapshot with those new topics that can be copied: a topic that cannot does not delay the others."""
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

    def _warn(self, doubts: tuple[str, ...]) -> None:
        """Logs doubts that are not those of the last time."""
        for doubt in doubts:
            if doubt not in self._doubts:
                log.warning("%s", doubt)
        self._doubts = doubts

    def _say(self, words: str) -> None:
        """Logs an error, unless it is the same as last time."""
        if words and words != self._said:
            log.error("what is new on the source cannot be copied yet: %s", words)
        self._said = words
