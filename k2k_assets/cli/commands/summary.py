"""The summary at the end of `k2k start`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k2k_assets.core.words import duration, plural, size

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline
    from k2k_assets.replication.driver.outcome import Outcome, TopicOutcome


def summary(pipeline: Pipeline, outcome: Outcome) -> str:
    """A head line, and a line for each topic.

    Args:
        pipeline: The pipeline that the head line names.
        outcome: The result of `replicate`.
    """
    topics = outcome.topics.values()
    records, volume = sum(t.records for t in topics), sum(t.bytes for t in topics)
    head = (
        f"{pipeline.name}: {plural(records, 'record')}, {size(volume)}, "
        f"{plural(len(outcome.topics), 'topic')}, {duration(outcome.seconds)}"
    )
    rows = [_row(name, topic) for name, topic in sorted(outcome.topics.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join([head, *(_aligned(row, widths) for row in rows)])


def _row(name: str, topic: TopicOutcome) -> list[str]:
    return [
        name if name == topic.target_topic else f"{name} -> {topic.target_topic}",
        plural(topic.records, "record"),
        size(topic.bytes),
        plural(topic.runs, "offset range"),
        f"lag {topic.lag:,}",
        "stopped" if topic.stopped else "paused" if topic.paused else "",
    ]


def _aligned(row: list[str], widths: list[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:-1], widths[1:-1], strict=True)), row[-1]]
    return ("  " + "  ".join(cells)).rstrip()
