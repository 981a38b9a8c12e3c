"""What the server answers, as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from typing_extensions import TypedDict

from k2k_assets.core.suggested_commands import with_files
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.overrides.decide import Override, describe_override
from k2k_assets.overrides.request import Wanted
from k2k_assets.server.pipeline_files import LoadedFiles
from k2k_assets.server.watch import WatchedStatus
from k2k_assets.status.copy_status import CopyStatus, MovedGroup
from k2k_assets.status.document import StatusDocument, status_document

_SET = re.compile(r"k2k-tool set -f FILE -o (?P<offset>\S+)(?P<flags>(?: --accept-[a-z-]+)*)")


class PipelineEntry(TypedDict):
    """A pipeline of the list, or files that cannot be used as one."""

    id: str | None
    name: str | None
    group: str | None
    files: list[str]
    fault: str | None


class Pipelines(TypedDict):
    """The answer about all pipelines."""

    pipelines: list[PipelineEntry]
    readOnly: bool


class Remedy(TypedDict):
    """A `k2k-tool set` that puts a stop right, as the body of a request."""

    offsets: list[str]
    acceptNewTopic: bool
    acceptForeignRecords: bool


class Stop(TypedDict):
    """A stopped partition."""

    topic: str
    partition: int
    code: str
    found: str
    remedy: str
    remedies: list[Remedy]


class PipelineState(TypedDict):
    """The answer about one pipeline."""

    id: str
    files: list[str]
    error: str | None
    status: StatusDocument | None
    stops: list[Stop]


class GroupPartition(TypedDict):
    """A position of a group."""

    topic: str
    partition: int
    offset: int


class MovedGroupDocument(TypedDict):
    """A consumer group on both clusters."""

    group: str
    source: list[GroupPartition]
    target: list[GroupPartition]


class MovedGroupsDocument(TypedDict):
    """The answer about consumer groups."""

    groups: list[MovedGroupDocument]
    unknown: str | None


class ChangeDocument(TypedDict):
    """What changes, or has changed, for one partition."""

    topic: str
    partition: int
    before: int | None
    position: int
    text: str


class ChangesDocument(TypedDict):
    """The answer to a request that sets positions."""

    plan: str
    applied: bool
    changes: list[ChangeDocument]


def listed(found: Sequence[LoadedFiles], read_only: bool) -> Pipelines:
    """All pipelines."""
    return {"pipelines": [_named(one) for one in found], "readOnly": read_only}


def watched(loaded: LoadedFiles, found: WatchedStatus) -> PipelineState:
    """One pipeline; of a cluster that does not answer, the last that is known.

    Args:
        loaded: The pipeline with its files.
        found: What is known of it.
    """
    assert loaded.pipeline is not None
    return {
        "id": loaded.id,
        "files": list(map(str, loaded.files)),
        "error": found.error or None,
        "status": status_document(loaded.pipeline, found.status) if found.status else None,
        "stops": list(_stops(found.status, loaded.files)) if found.status else [],
    }


def groups(status: CopyStatus | None) -> MovedGroupsDocument:
    """The consumer groups with their positions on both clusters."""
    moved = status.groups if status else None
    if moved is None:
        return {"groups": [], "unknown": None if status else "not read yet"}
    return {"groups": [_group(one) for one in moved.groups], "unknown": moved.unknown or None}


def changes(plan: str, decided: Sequence[Override], applied: bool) -> ChangesDocument:
    """What a request changes.

    Args:
        plan: Name of exactly these changes.
        decided: The changes.
        applied: Whether they are done.
    """
    return {
        "plan": plan,
        "applied": applied,
        "changes": [
            {
                "topic": one.facts.source.topic,
                "partition": one.facts.source.partition,
                "before": one.before,
                "position": one.position,
                "text": describe_override(one),
            }
            for one in decided
        ],
    }


def _named(one: LoadedFiles) -> PipelineEntry:
    pipeline = one.pipeline
    return {
        "id": one.id or None,
        "name": pipeline.name if pipeline else None,
        "group": pipeline.group if pipeline else None,
        "files": list(map(str, one.files)),
        "fault": one.fault or None,
    }


def _stops(status: CopyStatus, files: Sequence[Path]) -> Iterator[Stop]:
    for topic in status.topics:
        for partition, reason in topic.stopped.items():
            to_do = reason.to_do()
            yield {
                "topic": topic.topic,
                "partition": partition,
                "code": reason.code,
                "found": reason.found(),
                "remedy": with_files(to_do, {"-f": files}),
                "remedies": list(remedies(to_do)),
            }


def remedies(text: str) -> Iterator[Remedy]:
    """The `k2k-tool set` commands in what a stop reason says is to be done; not those with a place for an offset."""
    for found in _SET.finditer(text):
        offset = found["offset"].rstrip(",.;`")
        try:
            Wanted.parse(offset)
        except ValueError:
            continue
        flags = found["flags"].split()
        yield {
            "offsets": [offset],
            "acceptNewTopic": "--accept-new-topic" in flags,
            "acceptForeignRecords": "--accept-foreign-records" in flags,
        }


def _group(one: MovedGroup) -> MovedGroupDocument:
    return {"group": one.name, "source": _positions(one.source), "target": _positions(one.target)}


def _positions(offsets: Mapping[TopicPartition, int]) -> list[GroupPartition]:
    return [{"topic": tp.topic, "partition": tp.partition, "offset": offsets[tp]} for tp in sorted(offsets)]
