"""The state of a whole group, from the decisions on its positions. Pure."""

from __future__ import annotations

from collections import Counter

from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.report import PollResult

FAILED = "failed"
"""State of a group that could not be read or committed; the next poll tries it again."""

# Those that need most attention come first: a group is in the first one that one of its positions has.
_BY_ATTENTION = (
    CommitDecision.UNKNOWN,
    CommitDecision.NOT_REPLICATED,
    CommitDecision.NOT_HANDLED,
    CommitDecision.FOREIGN,
    CommitDecision.ANOTHER_CLUSTER,
    CommitDecision.OLDER,
    CommitDecision.ACTIVE,
    CommitDecision.TRANSLATION,
    CommitDecision.EXPIRED,
    CommitDecision.MAY_REPEAT,
    CommitDecision.WAITING,
    CommitDecision.AHEAD,
    CommitDecision.EXACT,
)
GROUP_STATES = (FAILED, *(each.value for each in _BY_ATTENTION))


def group_states(result: PollResult) -> dict[str, str]:
    """The state of each group of a poll, one of `GROUP_STATES`.

    Args:
        result: The poll.
    """
    found = dict.fromkeys(result.failed, FAILED)
    for group in result.decisions:
        if group not in found:
            decisions = result.decisions_of(group)
            found[group] = min(decisions, key=_BY_ATTENTION.index, default=CommitDecision.EXACT).value
    return found


def counted(result: PollResult) -> Counter[str]:
    """Number of groups in each state of `GROUP_STATES`; all states are there.

    Args:
        result: The poll.
    """
    return Counter({**dict.fromkeys(GROUP_STATES, 0), **Counter(group_states(result).values())})
