"""The verdict of a check: passed, failed or doubtful, with counts and the first offending rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

# Number of rows that are shown: enough to see the pattern; the counts tell how many there are.
SHOWN = 20


class Judgement(Enum):
    """The three answers of a check."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Offender:
    """One offending row. Fields are None if the fault has no such side.

    Attributes:
        what: Text on the fault.
        topic: Source topic.
        partition: Source partition.
        source_offset: Source offset.
        target_topic: Target topic.
        target_partition: Target partition.
        target_offset: Target offset.
    """

    what: str
    topic: str | None = None
    partition: int | None = None
    source_offset: int | None = None
    target_topic: str | None = None
    target_partition: int | None = None
    target_offset: int | None = None


@dataclass(frozen=True, slots=True)
class VerifiedPosition:
    """How far the content of one source partition is verified.

    Attributes:
        topic: Source topic.
        partition: Source partition.
        verified_to: Source offset below which everything was compared, at least in samples; None if nothing was.
        end: Source offset after the last mapped one.
        readable: Number of source offsets that are mapped and still on the source.
        looked_at: Number of these offsets that were compared record by record, and are right.
        bad: Number of stretches that were found wrong, and not verified good since.
    """

    topic: str
    partition: int
    verified_to: int | None
    end: int
    readable: int
    looked_at: int
    bad: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check.

    Attributes:
        judgement: The answer.
        summary: One sentence with the evidence.
        counts: Numbers of compared and offending items, by name.
        offenders: The first offending rows, at most `SHOWN`.
        verified: Verified positions, of checks that continue where they ended.
        way: How the check came to it, as text, of checks that have more than one way; else empty.
    """

    judgement: Judgement
    summary: str
    counts: Mapping[str, int] = field(default_factory=dict)
    offenders: Sequence[Offender] = ()
    verified: Sequence[VerifiedPosition] = ()
    way: str = ""

    @property
    def passed(self) -> bool:
        """Whether the check passed without doubt."""
        return self.judgement is Judgement.PASSED


def verdict(
    offenders: Sequence[Offender], found: int, good: str, counts: Mapping[str, int], doubt: str | None = None
) -> Verdict:
    """Makes the verdict from offending rows.

    Args:
        offenders: The first offending rows.
        found: Number of offending rows.
        good: The summary if there are none.
        counts: See `Verdict`.
        doubt: Why the check proves nothing even without offending rows; None if it does.
    """
    if found:
        first = offenders[0].what if offenders else "see the counts"
        return Verdict(Judgement.FAILED, f"{found} offending: first, {first}", counts, offenders[:SHOWN])
    if doubt:
        return Verdict(Judgement.WARNED, doubt, counts)
    return Verdict(Judgement.PASSED, good, counts)
