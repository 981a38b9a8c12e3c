"""Compares consumer groups after a copy with faults, for tests of the mapper.

Pure, as `verifying` is: it looks at what was read from both clusters, and says in words what is wrong.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

from k2k_assets.control.group_versions import Version, parse
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.brokers.kafka import ReadRecord
from k2k_assets_tests.support.brokers.offsets_topic import GroupCommit
from k2k_assets_tests.support.proof.verifying import record_id

_SHOWN = 5
GroupPartition = tuple[str, TopicPartition]


class Held(NamedTuple):
    """A position that a group may have held on the source.

    Attributes:
        position: The next offset that it would read.
        asked: Before it was committed, in milliseconds since the epoch.
        answered: After that; None: nobody knows whether it was.
    """

    position: int
    asked: int
    answered: int | None


class Judge(Protocol):
    """Knows by the logs of both sides where a group has to go on that has read one partition."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing on the target to go on at."""

    def skips(self, position: int, answer: int) -> bool:
        """Whether a record that a group at `position` has not read lies before `answer` only."""

    def repeats(self, position: int, answer: int) -> bool:
        """Whether a group at `position` reads a record again at or after `answer` without need."""


@dataclass(frozen=True)
class Copies:
    """Where the records of one source partition are on the target, if nobody else writes there.

    Attributes:
        offsets: Of the source's committed records, rising.
        least_last: By index into `offsets`: the least of the last copies of this record and all behind it.
        most_mapped: By index likewise: the greatest of the mapped copies of this record and all before it.
    """

    offsets: Sequence[int]
    least_last: Sequence[int]
    most_mapped: Sequence[int]

    @classmethod
    def of(
        cls, source: Iterable[ReadRecord], target: Iterable[ReadRecord], mappings: Iterable[MappingRecord]
    ) -> Copies:
        """From all committed records of both partitions, and the mapping records."""
        last = {record_id(record): record.offset for record in sorted(target, key=lambda record: record.offset)}
        copied = sorted((record.offset, last[record_id(record)]) for record in source if record_id(record) in last)
        mapped = {
            run.source_start + i: run.target_start + i
            for record in mappings
            for part in record.targets
            for run in part.runs
            for i in range(run.count)
        }
        offsets = [offset for offset, _ in copied]
        behind = list(accumulate((at for _, at in reversed(copied)), min))
        before = list(accumulate((mapped.get(offset, -1) for offset in offsets), max))
        return cls(offsets, behind[::-1], before)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was copied."""
        return not self.offsets

    def skips(self, position: int, answer: int) -> bool:
        """Whether a record that a group at `position` has not read lies before `answer` only."""
        index = bisect_left(self.offsets, position)
        return index < len(self.offsets) and self.least_last[index] < answer

    def repeats(self, position: int, answer: int) -> bool:
        """Whether the mapped copy of a record that was read lies at or after `answer`."""
        index = bisect_left(self.offsets, position)
        return index > 0 and self.most_mapped[index - 1] >= answer


@dataclass
class GroupVerdict:
    """What was compared.

    Attributes:
        commits: Commits of mappers.
        answers: Where both sides are written: what the product says of positions, how often.
        problems: What is wrong, in words.
    """

    commits: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __add__(self, other: GroupVerdict) -> GroupVerdict:
        """What was compared in both."""
        answers, problems = self.answers + other.answers, [*self.problems, *other.problems]
        return GroupVerdict(self.commits + other.commits, answers, problems)


def verify_commits(
    commits: Iterable[GroupCommit],
    history: Mapping[GroupPartition, Sequence[Held]],
    copies: Mapping[TopicPartition, Judge],
    prefix: str,
) -> GroupVerdict:
    """Every commit that a mapper ever made skips nothing for a position that the group held when it was looked at.

    Args:
        commits: Of the target's groups, in the order in which they were made.
        history: What each group has held on the source.
        copies: By source partition; the copy has the same topic and partition.
        prefix: `groups.offsetGuardPrefix`.
    """
    of_group: dict[GroupPartition, list[tuple[Version, GroupCommit]]] = defaultdict(list)
    for commit in commits:
        version = parse(commit.metadata, prefix)
        if version and (commit.group, commit.partition) in history:
            of_group[commit.group, commit.partition].append((version, commit))
    verdict = GroupVerdict()
    for (group, partition), made in of_group.items():
        name = f"group {group}, {partition}"
        verdict.commits += len(made)
        backwards = [later for (a, _), (b, later) in pairwise(made) if b < a]
        verdict.problems += _told(name, "replaced a newer observation", backwards)
        skipping = [
            commit
            for version, commit in made
            if all(
                copies[partition].skips(held.position, commit.offset)
                for held in _held_between(history[group, partition], version.poll, commit.time)
            )
        ]
        verdict.problems += _told(name, "belong to no position that it held, or skip records", skipping)
    return verdict


def misplaced(
    held: Mapping[GroupPartition, int],
    positions: Mapping[GroupPartition, int],
    copies: Mapping[TopicPartition, Judge],
) -> list[str]:
    """Groups that are not where they belong, once all is quiet and a mapper has looked.

    Args:
        held: Offsets on the target.
        positions: On the source.
        copies: By source partition.
    """
    words = []
    for (group, partition), position in sorted(positions.items()):
        of_partition, answer = copies[partition], held.get((group, partition))
        if of_partition.is_empty:
            continue
        name = f"group {group}, {partition}: at {position} on the source"
        if answer is None:
            words.append(f"{name}, nowhere on the target")
        elif of_partition.skips(position, answer) or of_partition.repeats(position, answer):
            what = "skips" if of_partition.skips(position, answer) else "repeats"
            words.append(f"{name}, at {answer} on the target: {what} records")
    return words


def _held_between(history: Sequence[Held], begin: int, end: int) -> list[Held]:
    """What may have been the group's position at some moment from `begin` to `end`."""
    found: list[Held] = []
    replaced: int | None = None  # when a later position had certainly replaced it
    for held in reversed(history):
        if held.asked <= end and (held.answered is None or replaced is None or replaced >= begin):
            found.append(held)
        if held.answered is not None:
            replaced = held.answered
    return found


def _told(name: str, what: str, commits: Sequence[GroupCommit]) -> list[str]:
    shown = ", ".join(f"{commit.offset} ({commit.metadata})" for commit in commits[:_SHOWN])
    return [f"{name}: {len(commits)} commits {what}: {shown}"] if commits else []
