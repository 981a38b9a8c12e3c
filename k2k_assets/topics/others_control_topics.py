"""Recognises the control topics of other pipelines on a source cluster, whatever their names: they are no data.

A source is often the target of another pipeline, whose control topics may have names of their own. They are recognised
by two signs. Settings of the topic itself, which are asked for of all new topics at once: the brokers' timestamps, and
one more of those that k2k gives its control topics. A pipeline file may say otherwise of the rest
(`topicCreation.control`), and few other topics have both. And the key of the first record, which is read of these few.

| the source says of a topic | it is |
| --- | --- |
| it has other settings | data |
| it has two of the settings, and no record | data until the next look |
| it has all settings of a control topic but for its retention, and no record | left out until one says what it is |
| it does not exist: it was deleted or created a moment ago | left out until the next look |
| this client may not see its settings | data, for nothing will ever say more |

Not recognised is a control topic that somebody created with other settings, or whose settings this client may not see.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from enum import Enum, auto

from k2k_assets.core import json_codec
from k2k_assets.core.errors import ClusterUnreachable, K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster, ConfigValue
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.offset_ranges import OffsetRange, read_range
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.topics")

_TIMESTAMPS = {"message.timestamp.type": "LogAppendTime"}
_COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024), "min.cleanable.dirty.ratio": "0.1"}
_MAPPINGS = {"cleanup.policy": "delete", "max.message.bytes": str(8 * 1024 * 1024)}
_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
# With the timestamps and one of these, each set on the topic itself, it may be a control topic.
_SIGNS = {key: value for key, value in {**_COMPACTED, **_MAPPINGS, **_FOR_EVER}.items() if key != "cleanup.policy"}
_KINDS = frozenset(
    {"instance", "claim", "beat", "run-beat", "stop", "start", "settings", "pause", "mapper", "mapper-beat", "stopped"}
)
# What a record is of. Those of mappers of older releases have no group.
_OWNERS = (frozenset({"group"}), frozenset({"pipeline", "mapper"}))
_OF_PARTITION = frozenset({"group", "topic", "partition"})
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
    verdicts = {name: _verdict(pipeline, source, name, seen.configs.get(name)) for name in set(unknown) - seen.hidden}
    sure = {name: verdict for name, verdict in verdicts.items() if verdict in (_Verdict.DATA, _Verdict.CONTROL)}
    _known.update({(servers, name): verdict is _Verdict.CONTROL for name, verdict in sure.items()})
    if control := sorted(name for name, verdict in sure.items() if verdict is _Verdict.CONTROL):
        log.warning(
            "left out, as control topics of other pipelines by the keys of their first records: %s. A list of names "
            "copies what it names", ", ".join(control),
        )  # fmt: skip
    if untold := sorted(name for name, verdict in verdicts.items() if verdict is _Verdict.UNTOLD):
        log.info("left out until more is known, perhaps control topics of other pipelines: %s", ", ".join(untold))
    return found.union(control, untold)


class _Verdict(Enum):
    """What a topic is: data, a control topic, or more than the source tells now."""

    DATA = auto()
    CONTROL = auto()
    EMPTY = auto()
    UNTOLD = auto()


def _verdict(pipeline: Pipeline, source: Cluster, name: str, config: Mapping[str, ConfigValue] | None) -> _Verdict:
    if config is None:
        return _Verdict.UNTOLD
    own = {key: each.value for key, each in config.items() if each.is_changed}
    if not (_has(own, _TIMESTAMPS) and any(own.get(key) == value for key, value in _SIGNS.items())):
        return _Verdict.DATA
    is_whole = _has(own, _COMPACTED) or _has(own, _MAPPINGS)
    try:
        key = _first_key(pipeline, source, name)
    except K2KError as error:
        log.debug("the first record of %s cannot be read: %s", name, error)
        return _Verdict.UNTOLD if is_whole else _Verdict.DATA
    if key is None:
        return _Verdict.UNTOLD if is_whole else _Verdict.EMPTY
    return _Verdict.CONTROL if is_control_key(key, any_kind=is_whole) else _Verdict.DATA


def _has(config: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(config.get(key) == value for key, value in wanted.items())


def may_hold_commits(config: Mapping[str, str]) -> bool:
    """Whether a topic with these settings was created as a commit topic, or as an assignment topic, which has the same.

    Args:
        config: All its settings.
    """
    return _has(config, {**_TIMESTAMPS, **_COMPACTED})


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
        is_owned = any(owner <= document.keys() for owner in _OWNERS)
        return is_owned and (any_kind or str(document["kind"]) in _KINDS)
    return document.keys() - {"cluster"} == _OF_PARTITION


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
