"""The findings on a group, and the verdict that follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from k2k_assets.core.words import plural
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.verification.verdict import Offender, Verdict, verdict

# Decisions by which others move the group on the target, so that there is no commit of ours to compare.
_LEFT_ALONE = {
    CommitDecision.ACTIVE.value,
    CommitDecision.FOREIGN.value,
    CommitDecision.ANOTHER_CLUSTER.value,
    CommitDecision.TRANSLATION.value,
    CommitDecision.OLDER.value,
}
_UNDECIDED = {
    "waiting": "ahead: waiting for the copy, nothing to compare yet",
    "moved_since": "moved on since",
}
_COUNTS = (
    *("compared", "waiting", "moved_since", "not_comparable", "not_looked_at", "without_leader"),
    *("records", "skipped", "read_again", "skipped_by_hand", "offending"),
)


@dataclass(slots=True)
class Findings:
    """The findings on one group.

    Attributes:
        unreadable: Why its commits, or the records around its position, could not be read; None if they could.
        unproven: Why positions are unknown, where others write to the target; empty if they are not.
    """

    counts: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    offenders: list[Offender] = field(default_factory=list)
    unreadable: str | None = None
    unproven: str = ""


def verdict_of(findings: Findings, runs: int) -> Verdict:
    """Makes the verdict on one group.

    Args:
        findings: The findings.
        runs: Number of runs after which all groups are checked.
    """
    counts = {
        "partitions": sum(findings.states.values()),
        **{name: findings.counts[name] for name in _COUNTS},
        **{f"state_{word.replace(' ', '_')}": count for word, count in sorted(findings.states.items())},
    }
    states = ", ".join(f"{count} {word}" for word, count in findings.states.most_common())
    compared = counts["compared"]
    good = (
        f"skipped {counts['skipped']}, read again {counts['read_again']}: {compared} of "
        f"{plural(counts['partitions'], 'partition')} ({states}) and {plural(counts['records'], 'record')} compared"
    )
    good += "".join(f"; {counts[name]} {what}" for name, what in _UNDECIDED.items() if counts[name])
    if counts["without_leader"]:
        good += f"; {counts['without_leader']} not looked at: {findings.unreadable}"
    if counts["not_looked_at"]:
        good += f"; {counts['not_looked_at']} not looked at this time: all are in {plural(runs, 'run')}"
    return verdict(findings.offenders, counts["offending"], good, counts, _doubt(findings, counts, states))


def _doubt(findings: Findings, counts: Mapping[str, int], states: str) -> str | None:
    """Why the verdict is doubtful, if nothing was compared that should have been; else None."""
    if findings.unreadable and not counts["compared"]:
        return f"nothing was compared, for it could not be read: {findings.unreadable}"
    if counts["compared"] or any(counts[name] for name in _UNDECIDED):
        return None
    if counts["not_comparable"]:
        return f"nothing could be compared ({states}): retention or compaction took the records on one side"
    if set(findings.states) <= _LEFT_ALONE and findings.states:
        return None
    if findings.unproven:
        return f"nothing was compared: {states}: {findings.unproven}"
    return f"nothing was compared: {states or 'no positions'}. See docs/offsets.md for what each of these means"
