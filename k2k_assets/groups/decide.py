"""Decides what is committed for a group, and what is not and why. Pure: no clock, no I/O.

For each target partition the first rule that fits:

| situation | decision | committed |
| --- | --- | --- |
| a source commit is a translation itself (two-way pipelines) | translation | no |
| copying of its source partitions has not begun | waiting | no |
| the mappings have no answer | unknown, not replicated | no |
| the target's group is no consumer group | not handled | no |
| the target has a commit of another source cluster's mapper, and `skip` | another cluster | no |
| the target has a commit that is not ours, and `skip` | foreign | no |
| the target has a later observation, and the guard is on | older | no |
| the target has this offset already | as translated | only to renew a commit that may soon expire by age |
| the target's group has members | active | no |
| all else, including a deliberate rewind | as translated: exact, ahead, may be read again, expired | yes |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from k2k_assets.control.group_versions import Version, parse
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.groups import CommittedOffset, Ends, GroupKind, GroupState
from k2k_assets.mapping.algebra.translate import TranslationState
from k2k_assets.translation.groups import Answer


class CommitDecision(StrEnum):
    """The decision on a group's position in one target partition."""

    EXACT = "exact"
    AHEAD = "ahead"  # ahead of the copy: committed at the end of the mappings, and refined as copying goes on
    WAITING = "waiting"  # copying of the partition has not begun: committed as soon as it has
    MAY_REPEAT = "may be read again"  # both sides are written: `Row.again`
    EXPIRED = "expired"  # the record was deleted on the target: committed at the log start
    UNKNOWN = "unknown"
    NOT_REPLICATED = "not replicated"
    ACTIVE = "active"
    FOREIGN = "foreign"
    ANOTHER_CLUSTER = "another cluster"  # its mapper moves the group: neither knows what was read on the other source
    OLDER = "older"
    TRANSLATION = "translation"
    NOT_HANDLED = "not handled"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for all decisions of one poll.

    Attributes:
        version: Version of this observation.
        prefix: `groups.offsetGuardPrefix`.
        guard: `features.applyMappingsGuard`: whether versions are compared.
        foreign: `groups.onForeignTargetCommit`.
        renew_before: A poll number, and so a time. Commits that are older are renewed even if nothing changed, because
            brokers delete offsets of groups without members some days after their commit.
        not_begun: Source partitions whose copying has not begun.
    """

    version: Version
    prefix: str
    guard: bool = True
    foreign: Literal["skip", "overwrite"] = "skip"
    renew_before: int = 0
    not_begun: Collection[TopicPartition] = frozenset()


class Row(NamedTuple):
    """The result for a group's position in one target partition.

    Attributes:
        target: The target partition.
        sources: Source partitions with the group's commit in each.
        offset: The translated position, within the target's log; -1 if there is none.
        on_target: The group's commit on the target before this poll; None if there was none.
        decision: The decision.
        commit: Whether to commit `offset`.
        again: Number of records that the group reads again from `offset` on, as far as the mappings tell.
    """

    target: TopicPartition
    sources: tuple[tuple[TopicPartition, CommittedOffset], ...]
    offset: int
    on_target: CommittedOffset | None
    decision: CommitDecision
    commit: bool
    again: int = 0

    @property
    def metadata(self) -> str:
        """The application's own commit metadata on the source; empty for most groups."""
        return "; ".join(dict.fromkeys(committed.metadata for _, committed in self.sources if committed.metadata))


class GroupDecision(NamedTuple):
    """The decisions for one group.

    Attributes:
        group: Name of the group.
        commits: The offsets to commit; empty for most groups in most polls.
        rows: One for each target partition, in the order of the answers.
    """

    group: str
    commits: dict[TopicPartition, int]
    rows: list[Row]

    @property
    def replaces(self) -> dict[TopicPartition, CommittedOffset | None]:
        """The commits on the target that this decision replaces; None where there was none."""
        return {row.target: row.on_target for row in self.rows if row.commit}


_WORDS = {
    TranslationState.EXACT: CommitDecision.EXACT,
    TranslationState.AHEAD: CommitDecision.AHEAD,
    TranslationState.MAY_REPEAT: CommitDecision.MAY_REPEAT,
    TranslationState.UNKNOWN: CommitDecision.UNKNOWN,
    TranslationState.NOT_REPLICATED: CommitDecision.NOT_REPLICATED,
}


def decide_group(
    group: str,
    answers: Sequence[Answer],
    on_target: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, Ends],
    rules: Rules,
    state: GroupState | None = None,
) -> GroupDecision:
    """Decides for one group.

    Args:
        group: Name of the group.
        answers: Its translated positions, at most one for each target partition.
        on_target: The group's commits on the target.
        ends: Ends of the target partitions; nothing is committed in a partition without them.
        rules: The rules of this poll.
        state: State of the target group; None if it does not exist.
    """
    rows = [_row(answer, on_target.get(answer.target), ends.get(answer.target), rules, state) for answer in answers]
    return GroupDecision(group, {row.target: row.offset for row in rows if row.commit}, rows)


def _row(
    answer: Answer, on_target: CommittedOffset | None, ends: Ends | None, rules: Rules, state: GroupState | None
) -> Row:
    offset, word = _place(answer, ends)
    if word is CommitDecision.NOT_REPLICATED and all(source in rules.not_begun for source, _ in answer.sources):
        word = CommitDecision.WAITING
    active = state is not None and state.active
    commit = False
    if offset < 0:
        pass
    elif state is not None and state.kind is GroupKind.OTHER:
        word = CommitDecision.NOT_HANDLED
    elif on_target is not None and (other := _another(on_target, rules)):
        word = other
    elif on_target is not None and on_target.offset == offset:
        commit = _may_expire(on_target, rules) and not active
    elif active:
        word = CommitDecision.ACTIVE
    else:
        commit = True
    return Row(answer.target, answer.sources, offset, on_target, word, commit, answer.again)


def _place(answer: Answer, ends: Ends | None) -> tuple[int, CommitDecision]:
    """The position, moved into the target's log, and the decision so far; -1 if there is no position."""
    if answer.translated:
        return -1, CommitDecision.TRANSLATION
    if answer.offset < 0:
        return -1, _WORDS[answer.state]
    if ends is None:
        return -1, CommitDecision.NOT_REPLICATED
    if answer.offset < ends.start:
        return ends.start, CommitDecision.EXPIRED
    if answer.offset > ends.end:
        return ends.end, CommitDecision.AHEAD
    return answer.offset, _WORDS[answer.state]


def _another(on_target: CommittedOffset, rules: Rules) -> CommitDecision | None:
    """The decision for a commit on the target that may not be replaced; None if it may."""
    version = parse(on_target.metadata, rules.prefix)
    if version is None:
        return CommitDecision.FOREIGN if rules.foreign == "skip" else None
    if version.is_of_another_cluster(rules.version.cluster):
        return CommitDecision.ANOTHER_CLUSTER if rules.foreign == "skip" else None
    return CommitDecision.OLDER if rules.guard and version > rules.version else None


def _may_expire(on_target: CommittedOffset, rules: Rules) -> bool:
    version = parse(on_target.metadata, rules.prefix)
    return version is not None and version.poll < rules.renew_before
