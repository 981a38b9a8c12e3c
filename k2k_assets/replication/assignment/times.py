"""How often a slot shows that it is alive, and when it counts as silent. Follows from `graceWindow`."""

from __future__ import annotations

from k2k_assets.pipeline import Pipeline

_SHORTEST_BEAT = 0.2


def beat_seconds(pipeline: Pipeline) -> float:
    """Longest time between two signs of life of a slot."""
    return max(pipeline.coordination.assignment.grace_window.total_seconds() / 3, _SHORTEST_BEAT)


def silence_seconds(pipeline: Pipeline) -> float:
    """After this long without a sign of life an owner may be taken over from."""
    return max(pipeline.coordination.assignment.grace_window.total_seconds(), 3 * _SHORTEST_BEAT)
