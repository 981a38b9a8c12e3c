"""What a check says: passed, failed or doubtful, with counts and the first rows that offend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

# Enough to see the pattern; the counts say how many there are.
SHOWN = 20


class Judgement(Enum):
    """The three answers of a check."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Offender:
    """One row that offends. Offsets are None where the fault has no such side.

    Attributes:
        what: What is wrong with it.
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
        verified_to: Source offset below which everything was looked at, at least in samples; None: nothing counts.
        end: Source offset after the newest that is mapped.
        readable: Source offsets that are mapped and still on the source.
        looked_at: Those of them that were looked at record by record, and are right.
        bad: Stretches that were found wrong, and not verified good since.
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
        summary: One sentence that holds the evidence.
        counts: What was looked at, and what was found, by name.
        offenders: The first rows that offend, at most `SHOWN`.
        verified: How far content is verified, of checks that go on from where they were.
    """

    judgement: Judgement
    summary: str
    counts: Mapping[str, int] = field(default_factory=dict)
    offenders: Sequence[Offender] = ()
    verified: Sequence[VerifiedPosition] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong or in doubt."""
        return self.judgement is Judgement.PASSED


def verdict(
    offenders: Sequence[Offender], found: int, good: str, counts: Mapping[str, int], doubt: str | None = None
) -> Verdict:
    """The verdict on counted offences.

    Args:
        offenders: The first of them.
        found: How many there are.
        good: The summary when there are none.
        counts: See `Verdict`.
        doubt: Why even without offences this is no proof; None when it is one.
    """
    if found:
        first = offenders[0].what if offenders else "see the counts"
        return Verdict(Judgement.FAILED, f"{found} offending: first, {first}", counts, offenders[:SHOWN])
    if doubt:
        return Verdict(Judgement.WARNED, doubt, counts)
    return Verdict(Judgement.PASSED, good, counts)
