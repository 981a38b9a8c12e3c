"""Numbers and times of a flow: slots, replication factors, intervals."""

from __future__ import annotations

from typing import Any

from k2k_assets.conversion.flow import Flow


def sizes(flow: Flow) -> dict[str, Any]:
    """The sections with numbers and times that a flow sets.

    Raises:
        ValueError: What has to be a whole number is none.
    """
    found: dict[str, Any] = {}
    if tasks := flow.setting("tasks.max"):
        found["configuration"] = {"partitionParallelism": _number(tasks, "tasks.max")}
    if refresh := interval(flow, "refresh.topics.interval.seconds", "metadataInterval"):
        found["sync"] = refresh
    copies = [
        _number(count, name)
        for name in ("offset-syncs.topic.replication.factor", "checkpoints.topic.replication.factor")
        if (count := flow.setting(name))
    ]
    creation = {"control": max(copies, default=0), "replication": _replication_factor(flow)}
    if any(count > 0 for count in creation.values()):
        found["topicCreation"] = {
            topics: {"common": {"replication": count}} for topics, count in creation.items() if count > 0
        }
    for name in ("exactly.once.support", "exactly.once.source.support"):
        flow.setting(name)
        flow.read.add(f"{flow.target}.{name}")
    return found


def interval(flow: Flow, name: str, key: str) -> dict[str, str]:
    """An interval of MirrorMaker 2 as one of a pipeline file; none where it says that nothing is done at intervals."""
    text = flow.setting(name)
    return {key: f"{seconds} seconds"} if text and (seconds := _number(text, name)) > 0 else {}


def _replication_factor(flow: Flow) -> int:
    """That of target topics; 0 if nothing is said, below if the brokers' default counts."""
    text = flow.setting("replication.factor")
    return _number(text, "replication.factor") if text else 0


def _number(text: str, key: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{key}: expected a whole number, found '{text}'") from None
