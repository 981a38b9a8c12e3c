"""What is committed for a group, and what is left alone and why. Pure: no clock, no I/O.

For each target partition the first rule that fits:

| what is found | said of it | committed |
| --- | --- | --- |
| a source commit is a translation itself (two-way pipelines) | translation | no |
| copying of its source partitions has not begun | waiting | no |
| the mappings have no answer | unknown, not replicated | no |
| the target's group is no consumer group | not handled | no |
| the target holds a commit that is not ours, and `skip` | foreign | no |
| the target holds a later observation, and the guard is on | older | no |
| the target holds this offset already | exact, ahead, expired | only to renew what may soon expire by age |
| the target's group has members | active | no |
| all else, also a deliberate rewind | exact, ahead, expired | yes |
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
    """What is said of a group's position in one target partition."""

    EXACT = "exact"
    AHEAD = "ahead"  # of the copy: committed at the end of what is mapped, and refined as copying goes on
    WAITING = "waiting"  # for the copy, which has not begun with the partition: committed as soon as it has
    EXPIRED = "expired"  # the record was deleted on the target: committed at the log start
    UNKNOWN = "unknown"
    NOT_REPLICATED = "not replicated"
    ACTIVE = "active"
    FOREIGN = "foreign"
    OLDER = "older"
    TRANSLATION = "translation"
    NOT_HANDLED = "not handled"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the decisions of one poll have in common.

    Attributes:
        version: Of this observation.
        prefix: `groups.offsetGuardPrefix`.
        guard: `features.applyMappingsGuard`: whether versions are compared.
        foreign: `groups.onForeignTargetCommit`.
        renew_before: A poll number, and so a time: what was committed before it is committed again though nothing
            changed, since brokers delete offsets of groups without members some days after their commit.
        not_begun: Source partitions with which copying has not begun.
    """

    version: Version
    prefix: str
    guard: bool = True
    foreign: Literal["skip", "overwrite"] = "skip"
    renew_before: int = 0
    not_begun: Collection[TopicPartition] = frozenset()


class Row(NamedTuple):
    """What became of a group's position in one target partition.

    Attributes:
        target: The target partition.
        sources: Source partitions with the group's commit in each.
        offset: The translated position, within the target's log; -1 if there is none.
        held: What the target held before; None if nothing.
        decision: What is said of it.
        commit: Whether it is to be committed.
    """

    target: TopicPartition
    sources: tuple[tuple[TopicPartition, CommittedOffset], ...]
    offset: int
    held: CommittedOffset | None
    decision: CommitDecision
    commit: bool

    @property
    def metadata(self) -> str:
        """What the application wrote beside its commits on the source; empty for most."""
        return "; ".join(dict.fromkeys(committed.metadata for _, committed in self.sources if committed.metadata))


class GroupDecision(NamedTuple):
    """What is done for one group.

    Attributes:
        group: Its name.
        commits: The offsets to commit; empty for most groups in most polls.
        rows: One for each target partition, in the order of the answers.
    """

    group: str
    commits: dict[TopicPartition, int]
    rows: list[Row]

    @property
    def replaces(self) -> dict[TopicPartition, CommittedOffset | None]:
        """What the commits are to replace; None: nothing."""
        return {row.target: row.held for row in self.rows if row.commit}


_WORDS = {
    TranslationState.EXACT: CommitDecision.EXACT,
    TranslationState.AHEAD: CommitDecision.AHEAD,
    TranslationState.UNKNOWN: CommitDecision.UNKNOWN,
    TranslationState.NOT_REPLICATED: CommitDecision.NOT_REPLICATED,
}


def decide_group(
    group: str,
    answers: Sequence[Answer],
    held: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, Ends],
    rules: Rules,
    state: GroupState | None = None,
) -> GroupDecision:
    """Decides for one group.

    Args:
        group: Its name.
        answers: Its translated positions, at most one for a target partition.
        held: What the target group holds.
        ends: Of the target partitions; nothing is committed in one that has none here.
        rules: Of this poll.
        state: Of the target group; None if it does not exist.
    """
    rows = [_row(answer, held.get(answer.target), ends.get(answer.target), rules, state) for answer in answers]
    return GroupDecision(group, {row.target: row.offset for row in rows if row.commit}, rows)


def _row(
    answer: Answer, held: CommittedOffset | None, ends: Ends | None, rules: Rules, state: GroupState | None
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
    elif held is not None and (other := _another(held, rules)):
        word = other
    elif held is not None and held.offset == offset:
        commit = _may_expire(held, rules) and not active
    elif active:
        word = CommitDecision.ACTIVE
    else:
        commit = True
    return Row(answer.target, answer.sources, offset, held, word, commit)


def _place(answer: Answer, ends: Ends | None) -> tuple[int, CommitDecision]:
    """The position within the target's log, and what is said of it; -1: there is none."""
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


def _another(held: CommittedOffset, rules: Rules) -> CommitDecision | None:
    """What is said of a commit that may not be replaced; None: it may."""
    version = parse(held.metadata, rules.prefix)
    if version is None:
        return CommitDecision.FOREIGN if rules.foreign == "skip" else None
    return CommitDecision.OLDER if rules.guard and version > rules.version else None


def _may_expire(held: CommittedOffset, rules: Rules) -> bool:
    version = parse(held.metadata, rules.prefix)
    return version is not None and version.poll < rules.renew_before
