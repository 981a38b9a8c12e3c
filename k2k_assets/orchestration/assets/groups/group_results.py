"""Shows a poll of consumer groups in Dagster: metadata of a group and of all groups, and failed groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from textwrap import shorten
from typing import NamedTuple

import dagster as dg

from k2k_assets.core.digest import digest
from k2k_assets.core.words import plural
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.report import Line, PollResult
from k2k_assets.orchestration import metadata as keys

_COLUMNS = {
    "target topic": "string",
    "partition": "int",
    "target offset": "int",
    "state": "string",
    "left on target": "int",
    "source": "string",
    "source offset": "int",
    "left on source": "int",
    "committed": "bool",
    "metadata": "string",
    "read again": "int",
}
# The group has read records that are not copied yet, which is no fault.
_AHEAD = "ahead: waiting"
_WORDS = {CommitDecision.AHEAD: _AHEAD, CommitDecision.WAITING: _AHEAD}
# Applications may write some thousand characters of metadata with each commit.
_MOST_METADATA = 120
_SUMMARY_COLUMNS = {
    "group": "string",
    "partitions": "int",
    "state": "string",
    "left on source": "int",
    "left on target": "int",
    "committed": "bool",
}


class ShownGroup(NamedTuple):
    """The content of a group's materialization."""

    metadata: keys.Metadata
    data_version: dg.DataVersion


def group_materialization(result: PollResult, group: str) -> ShownGroup:
    """The materialization of a group. Lags are in offsets, to the end that can be read.

    Args:
        result: The poll.
        group: Name of the group; without a commit on a mapped source topic it has no positions.
    """
    lines = result.lines(group) if group in result.decisions else []
    metadata: keys.Metadata = {
        keys.PARTITIONS: plural(len(lines), "partition"),
        keys.STATE: states(lines),
        keys.COMMITTED: group in result.committed,
        keys.LEFT_ON_SOURCE: left_on_source(lines),
        keys.LEFT_ON_TARGET: left_on_target(lines),
        keys.OBSERVATION: f"{result.version.generation}.{result.version.poll}",
        keys.POSITIONS: keys.table(_COLUMNS, _rows(lines)),
    }
    if result.moved_by:
        metadata[keys.MOVED_BY] = result.moved_by
    if again := sum(line.again for line in lines):
        metadata[keys.READ_AGAIN] = again
    unknown = [line.partition for line in lines if line.decision is CommitDecision.UNKNOWN]
    if unproven := sorted({why for partition in unknown if (why := result.unproven.get(partition))}):
        metadata[keys.UNPROVEN] = "; ".join(unproven)
    if result.held_back:
        metadata[keys.HELD_BACK] = result.held_back
    return ShownGroup(metadata, dg.DataVersion(_version(lines)))


def states(lines: Collection[Line]) -> str:
    """Number of partitions in each state."""
    counts = Counter(_WORDS.get(line.decision, line.decision.value) for line in lines)
    return ", ".join(f"{count} {word}" for word, count in counts.most_common()) or "no positions"


def left_on_source(lines: Collection[Line]) -> int:
    """Offsets left to read on the source."""
    return sum(source.left or 0 for source in {source for line in lines for source in line.sources})


def left_on_target(lines: Collection[Line]) -> int:
    """Offsets left to read on the target, for positions with an answer."""
    return sum(line.target.left or 0 for line in lines if line.target)


def groups_summary(result: PollResult) -> keys.Metadata:
    """The metadata of all groups together."""
    lines = {group: result.lines(group) for group in result.groups}
    rows = (
        (group, len(of), states(of), left_on_source(of), left_on_target(of), group in result.committed)
        for group, of in lines.items()
    )
    return {
        keys.PARTITIONS: plural(sum(len(of) for of in lines.values()), "partition"),
        keys.COMMITTED: len(result.committed),
        keys.SECONDS: round(result.seconds, 3),
        keys.NOT_HANDLED: ", ".join(result.not_handled) or "none",
        keys.GROUPS: keys.table(_SUMMARY_COLUMNS, rows),
    }


def positions_metadata(result: PollResult) -> keys.Metadata:
    """The metadata of the positions of all groups: totals that can be plotted, and texts.

    A group counts as exact if all its positions are exact, and as unknown if one of them has no answer.
    """
    lines = {group: result.lines(group) for group in result.groups}
    standing = Counter(_standing(of) for of in lines.values())
    every = [line for of in lines.values() for line in of]
    return {
        keys.GROUPS_EXACT: standing[CommitDecision.EXACT],
        keys.GROUPS_AHEAD: standing[CommitDecision.AHEAD],
        keys.GROUPS_UNKNOWN: standing[CommitDecision.UNKNOWN],
        keys.LEFT_ON_SOURCE: sum(left_on_source(of) for of in lines.values()),
        keys.LEFT_ON_TARGET: sum(left_on_target(of) for of in lines.values()),
        keys.POSITIONS_BY_STATE: states(every),
        keys.PARTITIONS: f"{plural(len(every), 'partition')} of {plural(len(lines), 'group')}",
    }


def positions_version(result: PollResult) -> str:
    """The data version of the positions of all groups."""
    return digest(",".join(f"{group}>{_version(result.lines(group))}" for group in result.groups))


def _version(lines: Collection[Line]) -> str:
    return digest(",".join(f"{line.partition}@{line.target.offset if line.target else ''}" for line in lines))


def _standing(lines: Collection[Line]) -> CommitDecision | None:
    """The state of a group; None if it is left alone, has expired, or has no positions."""
    said = {line.decision for line in lines}
    if said & {CommitDecision.UNKNOWN, CommitDecision.NOT_REPLICATED}:
        return CommitDecision.UNKNOWN
    if said & {CommitDecision.AHEAD, CommitDecision.WAITING}:
        return CommitDecision.AHEAD
    return CommitDecision.EXACT if said == {CommitDecision.EXACT} else None


def failed_groups(pipeline: str, failed: Mapping[str, str]) -> dg.Failure:
    """The failure that names each group that could not be read or committed."""
    words = "; ".join(f"{group}: {why}" for group, why in sorted(failed.items()))
    return dg.Failure(
        description=f"pipeline {pipeline}: {plural(len(failed), 'consumer group')} could not be read or committed; the "
        f"others were. Materialize again. {words}",
        metadata={keys.STOPPED: keys.table({"group": "string", "reason": "string"}, sorted(failed.items()))},
    )


def _rows(lines: Collection[Line]) -> Iterator[tuple[keys.Cell, ...]]:
    for line in lines:
        offset, left = (line.target.offset, line.target.left) if line.target else (None, None)
        target = (
            line.partition.topic,
            line.partition.partition,
            offset,
            _WORDS.get(line.decision, line.decision.value),
            left,
        )
        for source in line.sources or (None,):
            where = (str(source.partition), source.offset, source.left) if source else (None, None, None)
            yield (
                *target,
                *where,
                line.committed,
                shorten(line.metadata, _MOST_METADATA, placeholder=" ..."),
                line.again,
            )
