"""Heartbeats: how often a slot writes one, when it counts as dead, and which continuous instances live. Pure."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import BaseModel, ConfigDict

from k2k_assets.control.assignment_state import Assignments
from k2k_assets.pipeline import Pipeline

_SHORTEST_HEARTBEAT = 0.2


def heartbeat_interval_seconds(pipeline: Pipeline) -> float:
    """Longest time between two heartbeats of a slot."""
    return max(pipeline.coordination.assignment.grace_window.total_seconds() / 3, _SHORTEST_HEARTBEAT)


def heartbeat_timeout_seconds(pipeline: Pipeline) -> float:
    """After this long without a heartbeat an owner may be taken over from."""
    return max(pipeline.coordination.assignment.grace_window.total_seconds(), 3 * _SHORTEST_HEARTBEAT)


class Presence(BaseModel):
    """A continuous instance (`k2k start`) as the assignment topic tells of it.

    Attributes:
        sign: Offset of its last claim or heartbeat. Later there is a higher one, or the instance is dead.
        who: For people.
        run: Id of the Dagster run that it is; None for `k2k start`.
    """

    model_config = ConfigDict(frozen=True)

    sign: int
    who: str
    run: str | None = None


def continuous_instances(state: Assignments, pipeline: str, topics: Collection[str]) -> dict[str, Presence]:
    """The continuous instances that a run would take partitions from, by their names; dead ones are among them.

    Args:
        state: The assignment topic of the group.
        pipeline: Name of the pipeline that the run would be of.
        topics: Source topics that it selects: another pipeline of the group may copy them too.
    """
    copied_by = {claim.generation for claim in state.claims.values() if claim.topic in topics}
    return {
        instance.instance: Presence(
            # Its own record is the first sign: it has no slots yet while Spark starts.
            sign=max([generation, *(offset for (g, _), offset in state.signs.items() if g == generation)]),
            who=state.describe(generation),
            run=instance.run,
        )
        for generation, instance in state.instances.items()
        if instance.continuous and (instance.pipeline == pipeline or generation in copied_by)
    }
