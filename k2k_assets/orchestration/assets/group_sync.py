"""Runs the mapper from a Dagster step: once, or poll after poll until another one takes over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from k2k_assets.core.errors import Superseded
from k2k_assets.groups.mapper import sync, sync_once
from k2k_assets.groups.policies import ActiveGroup, ensure_none_active
from k2k_assets.groups.report import PollResult
from k2k_assets.groups.running_mapper import look, look_on, running_mapper
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.error_handling import Policy


def limited_to(pipeline: Pipeline, groups: Collection[str]) -> Pipeline:
    """The pipeline with these consumer groups alone."""
    chosen = pipeline.groups.model_copy(update={"consumer_groups": tuple(sorted(groups))})
    return pipeline.model_copy(update={"groups": chosen})


@dataclass(frozen=True, slots=True)
class PollFailed:
    """A poll that failed, and is tried again.

    Attributes:
        reason: What went wrong.
    """

    reason: str


def newest_poll(before: PollResult | PollFailed, event: PollResult | PollFailed) -> PollResult | PollFailed | None:
    """As `watched` wants it: a poll tells where all groups stand, but not what the ones before have committed."""
    if isinstance(before, PollResult) and isinstance(event, PollResult):
        return replace(event, committed=before.committed | event.committed)
    return event if isinstance(before, PollFailed) and isinstance(event, PollFailed) else None


def sync_groups(pipeline: Pipeline) -> PollResult:
    """Translates and commits once; where another mapper moves the groups, looks how far that has come.

    Args:
        pipeline: Whose groups.

    Returns:
        The last poll, with the groups that any poll has committed. Groups that `onActiveConsumerGroupCommit: fail` is
        about are among the failed ones: they end nothing that concerns the others.

    Raises:
        K2KError: See `groups.mapper`.
    """
    with both_clusters(pipeline) as (_, target):
        moved_by = running_mapper(pipeline, target)
    going_on = _leaving_active_groups_alone(pipeline)
    result = look_on(going_on, moved_by) if moved_by else sync_once(going_on)
    return with_active_failed(result, pipeline.error_handling.on_active_consumer_group_commit)


def look_at_groups(pipeline: Pipeline) -> PollResult:
    """Where groups stand and belong; nothing is moved, and groups that have members on the target are no failure.

    Raises:
        K2KError: See `groups.running_mapper`.
    """
    return look(_leaving_active_groups_alone(pipeline))


def keep_in_step(
    pipeline: Pipeline,
    stop: threading.Event,
    listener: Callable[[PollResult | PollFailed], None],
    run: str,
    held_back: Callable[[], str],
) -> str:
    """Translates and commits, poll after poll, until it is stopped or another mapper takes over.

    Args:
        pipeline: Whose groups.
        stop: Ends it after the poll that is under way.
        listener: Told of each poll. Groups that have members on the target are left alone, whatever the policy says.
        run: Id of the Dagster run that it is.
        held_back: Asked right before each commit: why nothing may be committed now; empty if it may.

    Returns:
        What is said of the mapper that has taken over; empty if it was stopped.

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
    """A poll in which the groups that the policy says are a failure are failed, each with what to do.

    Args:
        result: Of a poll that left them alone.
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
    """One line on a poll."""
    words = ", ".join(f"{count} {word.value}" for word, count in result.words.most_common())
    failed = f"; {len(result.failed)} failed: {', '.join(sorted(result.failed)[:5])}" if result.failed else ""
    others = f"; not handled (no consumer groups): {', '.join(result.not_handled[:5])}" if result.not_handled else ""
    return (
        f"{len(result.decisions)} groups ({words or 'no positions'}), {len(result.committed)} committed in "
        f"{result.seconds:.2f} s{failed}{others}"
    )
