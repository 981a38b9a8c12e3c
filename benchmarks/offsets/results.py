"""Makes the tables of results. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median

from benchmarks.offsets.plan import Kind
from benchmarks.offsets.rounds import Phase, Sample

HEADERS = [
    "what", "source", "lag", "R right after live writing", "R after a pause", "R committed before its start",
    "S", "untranslated", "s to converge", "not moved",
]  # fmt: skip


def rows(samples: Sequence[Sample], titles: dict[str, str]) -> list[list[str]]:
    """Rows of the table, all tools of a topic and lag together.

    Args:
        samples: Of all tools.
        titles: Name of each tool, by key, in the order of the table.
    """
    keys = sorted({(s.kind.topic, s.kind, s.lag) for s in samples}, key=lambda key: (key[0], key[2]))
    return [
        _row(title, kind, lag, [s for s in samples if (s.tool, s.kind, s.lag) == (tool, kind, lag)])
        for _, kind, lag in keys
        for tool, title in titles.items()
    ]


def _row(title: str, kind: Kind, lag: int, samples: list[Sample]) -> list[str]:
    def again(phase: Phase) -> str:
        return spread((s.error.again for s in samples if s.phase is phase and s.error), "{:,.0f}")

    committed = [s for s in samples if s.phase is not Phase.START]
    skipped = sum(s.error.skipped for s in samples if s.error)
    return [
        title, kind.title, f"{lag:,}", again(Phase.LIVE), again(Phase.IDLE), again(Phase.START),
        _of(samples, lambda s: s.error is not None and s.error.skipped > 0, skipped),
        _of(samples, lambda s: s.error is None),
        spread((s.seconds for s in committed if s.seconds is not None), "{:.1f}"),
        _of(committed, lambda s: s.seconds is None),
    ]  # fmt: skip


def spread(values: Iterable[float], form: str) -> str:
    """Mean, median and largest, or "-" of nothing."""
    found = list(values)
    if not found:
        return "-"
    return " / ".join(form.format(value) for value in (mean(found), median(found), max(found)))


def _of(samples: Sequence[Sample], which: Callable[[Sample], bool], total: int | None = None) -> str:
    """How many of them: "0", "3 of 20", or "57 in 3 of 20"."""
    count = sum(map(which, samples))
    found = f"{count} of {len(samples)}" if count else "0"
    return f"{total:,} in {found}" if count and total is not None else found
