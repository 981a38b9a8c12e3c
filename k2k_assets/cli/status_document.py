"""The JSON of `k2k status`. Its keys are documented in docs/status.md and stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from k2k_assets.cli.timestamps import shown

if TYPE_CHECKING:
    from k2k_assets.core.stops.reason import StopReason
    from k2k_assets.pipeline import Pipeline
    from k2k_assets.status.copy_status import CopiedTopic, CopyStatus, MovedGroups
    from k2k_assets.status.lag import PartitionLag, TotalLag

VERSION = 1


def status_document(pipeline: Pipeline, status: CopyStatus) -> dict[str, Any]:
    """The document, without secrets.

    Args:
        pipeline: The pipeline.
        status: Its status.
    """
    return {
        "version": VERSION,
        "pipeline": pipeline.name,
        "group": pipeline.group,
        "delivery": "exactly-once" if pipeline.features.exactly_once else "at-least-once",
        "source": pipeline.client_properties("source", "admin")["bootstrap.servers"],
        "target": pipeline.client_properties("target", "admin")["bootstrap.servers"],
        "time": shown(status.time),
        **_totals(status.lag, status.rate, status.last_commit),
        "groups": _groups(status.groups),
        "topics": [_topic(topic) for topic in status.topics],
    }


def _totals(lag: TotalLag, rate: float, last_commit: int | None) -> dict[str, Any]:
    return {
        "lag": lag.offsets,
        "secondsBehind": lag.seconds,
        "partitionsUnknown": lag.unknown,
        "recordsPerSecond": round(rate, 3),
        "lastCommit": None if last_commit is None else shown(last_commit),
    }


def _groups(groups: MovedGroups | None) -> dict[str, Any] | None:
    if groups is None:
        return None
    if groups.unknown:
        return {"selected": None, "onTarget": None, "unknown": groups.unknown}
    return {"selected": groups.selected, "onTarget": groups.on_target, "unknown": None}


def _topic(topic: CopiedTopic) -> dict[str, Any]:
    from k2k_assets.status.history import STEP_SECONDS

    return {
        "topic": topic.topic,
        "targetTopic": topic.target,
        "state": topic.state,
        "paused": None
        if topic.paused is None
        else {"by": topic.paused.by, "since": shown(topic.paused.time), "reason": topic.paused.why},
        **_totals(topic.lag, topic.rate, topic.last_commit),
        "history": {"stepSeconds": STEP_SECONDS, "records": topic.history},
        "partitions": [_partition(p, lag, topic.stopped.get(p)) for p, lag in topic.partitions.items()],
    }


def _partition(number: int, lag: PartitionLag, stopped: StopReason | None) -> dict[str, Any]:
    return {
        "partition": number,
        "position": lag.position,
        "end": lag.end,
        "lag": lag.offsets,
        "secondsBehind": lag.seconds,
        "stopped": None
        if stopped is None
        else {"code": stopped.code, "found": stopped.found(), "remedy": stopped.to_do()},
    }
