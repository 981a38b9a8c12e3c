"""Recognises the control topics of other pipelines on a source cluster, whatever their names: they are no data.

A source is often the target of another pipeline, whose control topics may have names of their own. They are recognised
by two signs: settings that k2k gives its control topics (the broker's timestamps, unlimited retention), which is asked
for all new topics at once; and the key of the first record of those few topics that have them.

| the source says of a topic | it is |
| --- | --- |
| it has other settings | data |
| it has the settings of a control topic, and no record yet | left out until a record says what it is |
| it does not exist: it was deleted or created a moment ago | left out until the next look |
| this client may not see its settings | data, for nothing will ever say more |

Not recognised is a control topic that somebody created with other settings, or whose settings this client may not see.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from k2k_assets.core import json_codec
from k2k_assets.core.errors import ClusterUnreachable, K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.offset_ranges import OffsetRange, read_range
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.topics")

_SIGNS = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
# With one of these it is a control topic for sure, as k2k creates them: compacted ones, and the mapping topic.
_COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024), "min.cleanable.dirty.ratio": "0.1"}
_WHOLE = (_COMPACTED, {"cleanup.policy": "delete", "max.message.bytes": str(8 * 1024 * 1024)})
_KINDS = frozenset(
    {"instance", "claim", "beat", "run-beat", "stop", "start", "settings", "pause", "mapper", "mapper-beat", "stopped"}
)
# Where the first records of a log are looked for: a compacted one has gaps.
_FIRST = 1_000_000

# What is known for sure, by bootstrap address and topic: it does not change, and looks are repeated twice a minute.
_known: dict[tuple[str, str], bool] = {}


def others_control_topics(pipeline: Pipeline, source: Cluster, names: Collection[str]) -> set[str]:
    """Those of some source topics that are control topics of other pipelines.

    Args:
        pipeline: Has the settings of the source's clients.
        source: The source cluster.
        names: Existing source topics.

    Raises:
        ClusterUnreachable: The source does not say what they are: to guess would be to copy what is no data.
    """
    servers = str(pipeline.client_properties("source", "admin").get("bootstrap.servers", ""))
    unknown = [name for name in names if (servers, name) not in _known]
    found = {name for name in names if _known.get((servers, name))}
    if not unknown:
        return found
    try:
        seen = source.seen_configs(unknown)
    except ClusterUnreachable:
        raise
    except K2KError as error:
        log.debug("whether there are control topics of other pipelines is not known: %s", error)
        return found
    for name in set(unknown) - seen.hidden:
        verdict = _verdict(pipeline, source, name, seen.configs[name]) if name in seen.configs else None
        if verdict is not None:
            _known[servers, name] = verdict
        if verdict is not False:
            found.add(name)
    if fresh := found.intersection(unknown):
        log.info("left out, as control topics of other pipelines or not known yet: %s", ", ".join(sorted(fresh)))
    return found


def _verdict(pipeline: Pipeline, source: Cluster, name: str, config: Mapping[str, str]) -> bool | None:
    """Whether a topic is a control topic; None: it looks like one, and has no record yet."""
    if any(config.get(key) != value for key, value in _SIGNS.items()):
        return False
    is_whole = any(all(config.get(key) == value for key, value in whole.items()) for whole in _WHOLE)
    try:
        key = _first_key(pipeline, source, name)
    except K2KError as error:
        log.debug("the first record of %s cannot be read: %s", name, error)
        return None if is_whole else False
    if key is None:
        return None if is_whole else False
    return is_control_key(key, any_kind=is_whole)


def may_hold_commits(config: Mapping[str, str]) -> bool:
    """Whether a topic with these settings was created as a commit topic, or as an assignment topic, which has the same.

    Args:
        config: All its settings.
    """
    return all(config.get(key) == value for key, value in {**_SIGNS, **_COMPACTED}.items())


def is_control_key(key: bytes, any_kind: bool = False) -> bool:
    """Whether a key is one of k2k's control records.

    Args:
        key: A record's key.
        any_kind: Whether kinds of control records that this release does not know count, as newer ones write them.
    """
    try:
        document = json_codec.decode(key, "key")
    except ValueError:
        return False
    if "kind" in document:
        return str(document["kind"]) in _KINDS or (any_kind and "group" in document)
    return {"group", "topic", "partition"} <= document.keys()


def _first_key(pipeline: Pipeline, source: Cluster, name: str) -> bytes | None:
    """The key of the first record that has one; None if there is no record."""
    partitions = source.partitions_of([name])
    starts, ends = source.offsets(partitions, "earliest"), source.offsets(partitions, "latest")
    properties = {**pipeline.client_properties("source", "consumer"), "isolation.level": "read_uncommitted"}
    for tp in partitions:
        message = _first(properties, tp, starts.get(tp, 0), ends.get(tp, 0))
        if message is not None:
            return message.key() or b""
    return None


def _first(properties: Mapping[str, object], tp: TopicPartition, start: int, end: int) -> Message | None:
    chunks = read_range(properties, OffsetRange(*tp, start, min(end, start + _FIRST)))
    try:
        return next((chunk[0] for chunk in chunks if chunk), None)
    finally:
        chunks.close()  # type: ignore[attr-defined]  # a generator
