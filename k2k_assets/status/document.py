"""The status of a copy as JSON: of `k2k status --json` and of `k2k-tool server`.

Its keys are documented in docs/status.md and stay as they are.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.words import utc
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.copy_status import CopiedTopic, CopyStatus, MovedGroups, State
from k2k_assets.status.history import STEP_SECONDS
from k2k_assets.status.lag import PartitionLag, TotalLag

VERSION = 1


class Totals(TypedDict):
    """Lag and pace of a topic, or of a pipeline."""

    lag: int
    secondsBehind: float | None
    partitionsUnknown: int
    recordsPerSecond: float
    lastCommit: str | None


class StopDocument(TypedDict):
    """Why a partition is stopped, and what to do."""

    code: str
    found: str
    remedy: str


class PartitionDocument(TypedDict):
    """One source partition."""

    partition: int
    position: int | None
    end: int | None
    lag: int | None
    secondsBehind: float | None
    stopped: StopDocument | None


class PauseDocument(TypedDict):
    """Who paused a topic, when and why."""

    by: str
    since: str
    reason: str | None


class HistoryDocument(TypedDict):
    """Records copied in each step of the last minutes, the newest last."""

    stepSeconds: int
    records: list[int]


class TopicDocument(Totals):
    """One source topic."""

    topic: str
    targetTopic: str | None
    state: State
    paused: PauseDocument | None
    transport: str | None
    history: HistoryDocument
    partitions: list[PartitionDocument]


class GroupsDocument(TypedDict):
    """How many consumer groups the pipeline moves, or why nobody knows."""

    selected: int | None
    onTarget: int | None
    unknown: str | None


class StatusDocument(Totals):
    """The status of a pipeline."""

    version: int
    pipeline: str
    group: str
    delivery: str
    source: str
    target: str
    time: str
    groups: GroupsDocument | None
    topics: list[TopicDocument]


def status_document(pipeline: Pipeline, status: CopyStatus) -> StatusDocument:
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
        "source": str(pipeline.client_properties("source", "admin")["bootstrap.servers"]),
        "target": str(pipeline.client_properties("target", "admin")["bootstrap.servers"]),
        "time": utc(status.time),
        **_totals(status.lag, status.rate, status.last_commit),
        "groups": _groups(status.groups),
        "topics": [_topic(topic) for topic in status.topics],
    }


def _totals(lag: TotalLag, rate: float, last_commit: int | None) -> Totals:
    return {
        "lag": lag.offsets,
        "secondsBehind": lag.seconds,
        "partitionsUnknown": lag.unknown,
        "recordsPerSecond": round(rate, 3),
        "lastCommit": None if last_commit is None else utc(last_commit),
    }


def _groups(groups: MovedGroups | None) -> GroupsDocument | None:
    if groups is None:
        return None
    if groups.unknown:
        return {"selected": None, "onTarget": None, "unknown": groups.unknown}
    return {"selected": groups.selected, "onTarget": groups.on_target, "unknown": None}


def _topic(topic: CopiedTopic) -> TopicDocument:
    return {
        "topic": topic.topic,
        "targetTopic": topic.target,
        "state": topic.state,
        "paused": None
        if topic.paused is None
        else {"by": topic.paused.by, "since": utc(topic.paused.time), "reason": topic.paused.why},
        "transport": topic.form or None,
        **_totals(topic.lag, topic.rate, topic.last_commit),
        "history": {"stepSeconds": STEP_SECONDS, "records": topic.history},
        "partitions": [_partition(p, lag, topic.stopped.get(p)) for p, lag in topic.partitions.items()],
    }


def _partition(number: int, lag: PartitionLag, stopped: StopReason | None) -> PartitionDocument:
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
