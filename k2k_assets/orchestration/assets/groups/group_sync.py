"""Runs the mapper from a Dagster step: once, or poll after poll until another one takes over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace

from k2k_assets.core.errors import Superseded
from k2k_assets.core.words import plural
from k2k_assets.groups.mapper import sync, sync_once
from k2k_assets.groups.policies import ActiveGroup, ensure_none_active
from k2k_assets.groups.report import PollFailed, PollResult
from k2k_assets.groups.running_mapper import await_moved, observe, running_mapper
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.error_handling import Policy


def limited_to(pipeline: Pipeline, groups: Collection[str]) -> Pipeline:
    """The pipeline with only these consumer groups."""
    chosen = pipeline.groups.model_copy(update={"consumer_groups": tuple(sorted(groups))})
    return pipeline.model_copy(update={"groups": chosen})


def newest_poll(before: PollResult | PollFailed, event: PollResult | PollFailed) -> PollResult | PollFailed | None:
    """Merges two polls for `watched`: a poll has the positions of all groups, but not earlier commits."""
    if isinstance(before, PollResult) and isinstance(event, PollResult):
        return replace(event, committed=before.committed | event.committed)
    return event if isinstance(before, PollFailed) and isinstance(event, PollFailed) else None


def sync_groups(pipeline: Pipeline) -> PollResult:
    """Translates and commits once; if another mapper moves the groups, only reads their positions.

    Args:
        pipeline: The pipeline.

    Returns:
        The last poll, with the groups that any poll has committed. Groups to which `onActiveConsumerGroupCommit: fail`
        applies are among the failed ones; the other groups are still moved.

    Raises:
        K2KError: See `groups.mapper`.
    """
    with both_clusters(pipeline) as (_, target):
        moved_by = running_mapper(pipeline, target)
    going_on = _leaving_active_groups_alone(pipeline)
    result = await_moved(going_on, moved_by) if moved_by else sync_once(going_on)
    return with_active_failed(result, pipeline.error_handling.on_active_consumer_group_commit)


def observe_groups(pipeline: Pipeline) -> PollResult:
    """Reads and translates positions without moving groups; members on the target are no failure.

    Raises:
        K2KError: See `groups.running_mapper`.
    """
    return observe(_leaving_active_groups_alone(pipeline))


def keep_in_step(
    pipeline: Pipeline,
    stop: threading.Event,
    listener: Callable[[PollResult | PollFailed], None],
    run: str,
    held_back: Callable[[], str],
) -> str:
    """Translates and commits, poll after poll, until it is stopped or another mapper takes over.

    Args:
        pipeline: The pipeline.
        stop: Ends it after the present poll.
        listener: Receives each poll. Groups that have members on the target are left alone, under any policy.
        run: Id of the Dagster run.
        held_back: Called right before each commit: returns why groups are held back now; empty if they are not.

    Returns:
        A description of the mapper that has taken over; empty if it was stopped.

    Raises:
        K2KError: See `groups.mapper`.
    """
    try:
        sync(
            _leaving_active_groups_alone(pipeline),
            stop,
            observer=listener,
            on_trouble=lambda error: listener(PollFailed(str(error))),
            run=run,
            held_back=held_back,
        )
    except Superseded as error:
        return str(error)
    return ""


def _leaving_active_groups_alone(pipeline: Pipeline) -> Pipeline:
    policies = pipeline.error_handling.model_copy(update={"on_active_consumer_group_commit": "ignore"})
    return pipeline.model_copy(update={"error_handling": policies})


def with_active_failed(result: PollResult, policy: Policy) -> PollResult:
    """A poll in which groups with members on the target fail if the policy says so, each with what to do.

    Args:
        result: A poll that left them alone.
        policy: `errorHandling.onActiveConsumerGroupCommit`.
    """
    failed = {}
    for group, decision in result.decisions.items():
        try:
            ensure_none_active([decision], policy, result.active)
        except ActiveGroup as reason:
            failed[group] = str(reason)
    return replace(result, failed={**result.failed, **failed}) if failed else result


def describe(result: PollResult) -> str:
    """One line about a poll."""
    words = ", ".join(f"{count} {word.value}" for word, count in result.decision_counts.most_common())
    failed = f"; {len(result.failed)} failed: {', '.join(sorted(result.failed)[:5])}" if result.failed else ""
    others = f"; not handled (no consumer groups): {', '.join(result.not_handled[:5])}" if result.not_handled else ""
    return (
        f"{plural(len(result.decisions), 'group')} ({words or 'no positions'}), {len(result.committed)} committed in "
        f"{result.seconds:.2f} s{failed}{others}"
    )
