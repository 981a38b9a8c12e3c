"""What the clusters hold for a pipeline, remembered in a file so that definitions load without a broker.

The sensors, runs, `k2k start` and the demo write it; `definitions.py` only reads it. It is a plain JSON file under the
state directory (`k2k_assets.core.home`), which may lie in an object store, and not Dagster's own defs state: that one
can be written only by a component inside a Dagster project or instance, while `k2k start` has neither. What it is used
for is the same: state is written apart from loading, loading reads nothing else, and a run sees the state that its code
location was loaded with.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from k2k_assets.core.errors import K2KError
from k2k_assets.core.home import HOME_VARIABLE, discovery_file
from k2k_assets.core.state_path import StatePath
from k2k_assets.groups.source_groups import SourceGroups
from k2k_assets.kafka.answers import in_thread
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.group_selection import GroupSelection
from k2k_assets.topics.selection import selected_on

VERSION = 1

_log = logging.getLogger(__name__)

# What a file raises that is no state file, or one of another release.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class DiscoveredTopic:
    """A source topic that the pipeline selects.

    Attributes:
        partitions: How many it has on the source.
        target: The topic it is copied to; None when the pipeline's routing has no answer.
    """

    partitions: int
    target: str | None


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found for a pipeline.

    Attributes:
        pipeline: The pipeline's name.
        time: When, milliseconds since the epoch, UTC.
        source_cluster: Id of the source cluster.
        target_cluster: Id of the target cluster.
        topics: By source topic.
        groups: Selected consumer groups of the source that have a commit on one of the topics, by name; none where
            offsets are not mapped.
    """

    pipeline: str
    time: int
    source_cluster: str
    target_cluster: str
    topics: Mapping[str, DiscoveredTopic]
    groups: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The JSON document of the state file."""
        return {
            "version": VERSION,
            "pipeline": self.pipeline,
            "time": self.time,
            "sourceCluster": self.source_cluster,
            "targetCluster": self.target_cluster,
            "topics": {
                name: {"partitions": topic.partitions, "target": topic.target} for name, topic in self.topics.items()
            },
            "groups": list(self.groups),
        }

    @classmethod
    def of(cls, document: dict[str, Any]) -> Discovery:
        """What a document says.

        Raises:
            ValueError: This release does not know its version.
            KeyError: Something is missing in it.
        """
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']!r} is unknown here")
        return cls(
            pipeline=document["pipeline"],
            time=document["time"],
            source_cluster=document["sourceCluster"],
            target_cluster=document["targetCluster"],
            topics={
                name: DiscoveredTopic(topic["partitions"], topic["target"])
                for name, topic in document["topics"].items()
            },
            # Releases without consumer groups wrote none.
            groups=tuple(document.get("groups", ())),
        )

    def same_as(self, other: Discovery | None) -> bool:
        """Whether both say the same, whenever they were made."""
        return other is not None and replace(other, time=self.time) == self


def discover(pipeline: Pipeline, source: Cluster, target: Cluster) -> Discovery:
    """Asks both clusters.

    Raises:
        ClusterUnreachable: One does not answer.
    """
    found = _discover_topics(pipeline, source, target)
    return replace(found, groups=_groups(pipeline, source, found.topics))


def _discover_topics(pipeline: Pipeline, source: Cluster, target: Cluster) -> Discovery:
    existing = source.topics()
    topics = {name: existing[name] for name in sorted(selected_on(pipeline, source, existing))}
    return _discovery(pipeline, topics, source.cluster_id(), target.cluster_id())


def _discovery(pipeline: Pipeline, topics: Mapping[str, int], source_id: str, target_id: str) -> Discovery:
    return Discovery(
        pipeline=pipeline.name,
        time=int(time.time() * 1000),
        source_cluster=source_id,
        target_cluster=target_id,
        topics={name: DiscoveredTopic(count, pipeline.routing.target_if_any(name)) for name, count in topics.items()},
    )


def _groups(pipeline: Pipeline, source: Cluster, topics: Collection[str]) -> tuple[str, ...]:
    """The groups; those that were known before where they cannot be told now: topics are copied without them."""
    if not pipeline.features.offset_mapping:
        return ()
    before = load(pipeline.name)
    known = {group for group in (before.groups if before else ()) if selection_of(pipeline).matches(group)}
    try:
        seen = SourceGroups(source, selection_of(pipeline)).observe(topics)
    except K2KError as error:
        _log.warning("the consumer groups of pipeline %s cannot be discovered: %s", pipeline.name, error)
        return tuple(sorted(known))
    return tuple(sorted({*seen.groups, *known.intersection(seen.failed)}))


def selection_of(pipeline: Pipeline) -> GroupSelection:
    """Which consumer groups the pipeline selects."""
    return GroupSelection(pipeline.groups.consumer_groups)


def save(discovery: Discovery) -> bool:
    """Writes the state file where it would change, atomically. One that cannot be written stops nobody.

    Returns:
        Whether it was written: anything but the time changed.
    """
    if discovery.same_as(load(discovery.pipeline)):
        return False
    try:
        _write(discovery_file(discovery.pipeline), discovery)
    except (K2KError, OSError) as error:
        # It is only a memory: without it all is discovered anew.
        _log.warning(
            "what was discovered for pipeline %s cannot be remembered (%s); %s names another directory",
            discovery.pipeline,
            error,
            HOME_VARIABLE,
        )
        return False
    return True


def _write(path: StatePath, discovery: Discovery) -> None:
    path.replace(json.dumps(discovery.document(), indent=1) + "\n")


def load(pipeline_name: str) -> Discovery | None:
    """Reads the state file; None when there is none, or none that this release can read."""
    try:
        path = discovery_file(pipeline_name)
    except K2KError as error:
        _log.warning("nothing is remembered of pipeline %s: %s", pipeline_name, error)
        return None
    try:
        return _read(path, pipeline_name)
    except (OSError, *UNREADABLE) as error:
        # It is only a memory: the next discovery writes it anew.
        _log.warning("%s cannot be read and is left out (%s); the next discovery replaces it", path, error)
        return None


def _read(path: StatePath, pipeline_name: str) -> Discovery | None:
    """A state file; None when there is none.

    Raises:
        OSError: It cannot be read.
        UNREADABLE: It holds nothing that this release understands.
    """
    try:
        discovery = Discovery.of(json.loads(path.read()))
    except FileNotFoundError:
        return None
    if discovery.pipeline != pipeline_name:
        raise ValueError(f"it is of pipeline {discovery.pipeline!r}")
    return discovery


def refresh(pipeline: Pipeline, source: Cluster, target: Cluster) -> Discovery:
    """Discovers and saves; what the sensors, runs and the demo call.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    discovery = discover(pipeline, source, target)
    save(discovery)
    return discovery


def refresh_beside(pipeline: Pipeline, source: Cluster, target: Cluster) -> tuple[Discovery, Callable[[], Discovery]]:
    """As `refresh`, for who looks at other things while the groups are asked for: of many, that takes a second.

    Returns:
        What was found but for the groups; and what waits for those, and saves all.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    found = _discover_topics(pipeline, source, target)
    groups = in_thread(partial(_groups, pipeline, source, found.topics))

    def whole() -> Discovery:
        discovery = replace(found, groups=groups.result())
        save(discovery)
        return discovery

    return found, whole


def remember_topics(pipeline: Pipeline, topics: Mapping[str, int], source_id: str, target_id: str) -> bool:
    """Saves the topics alone; what `k2k start` calls, which need not be allowed to see any group.

    The groups stay as they are known. A file with other clusters in it stays too: it is of another pipeline with the
    same name, such as one of Dagster's folder while this one is tried elsewhere. If it is the same after all, and its
    clusters were made anew, Dagster's sensor replaces it.

    Args:
        pipeline: Whose topics.
        topics: What it copies, with partition counts.
        source_id: Id of the source cluster.
        target_id: Id of the target cluster.

    Returns:
        False when the file is one with other clusters in it.

    Raises:
        K2KError: There is no home directory.
        OSError: The file cannot be read or written.
    """
    path = discovery_file(pipeline.name)
    try:
        before = _read(path, pipeline.name)
    except UNREADABLE:
        before = None  # as in `load`, it is replaced
    found = _discovery(pipeline, topics, source_id, target_id)
    if before is not None:
        if (before.source_cluster, before.target_cluster) != (found.source_cluster, found.target_cluster):
            return False
        found = replace(found, groups=before.groups)
    if not found.same_as(before):
        _write(path, found)
    return True
