"""Runs the mapper from a Dagster step: once, or poll after poll for a bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from k2k_assets.groups.mapper import sync, sync_once
from k2k_assets.groups.policies import ActiveGroup, ensure_none_active
from k2k_assets.groups.report import PollResult
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.error_handling import Policy

# In how many polls without a commit it shows that groups stand still.
_QUIET_POLLS = 2


def limited_to(pipeline: Pipeline, groups: Collection[str]) -> Pipeline:
    """The pipeline with these consumer groups alone."""
    chosen = pipeline.groups.model_copy(update={"consumer_groups": tuple(sorted(groups))})
    return pipeline.model_copy(update={"groups": chosen})


def sync_groups(pipeline: Pipeline, window: float, log: Callable[[str], None]) -> PollResult:
    """Translates and commits.

    Args:
        pipeline: Whose groups.
        window: Seconds of polling, each `groups.pollInterval`; it ends early when nothing had to be committed for
            `sync.idle`. 0: once.
        log: Told of each poll that committed something.

    Returns:
        The last poll, with the groups that any poll has committed. Groups that `onActiveConsumerGroupCommit: fail` is
        about are among the failed ones: they end nothing that concerns the others.

    Raises:
        K2KError: See `groups.mapper`.
    """
    policy = pipeline.error_handling.on_active_consumer_group_commit
    going_on = _leaving_active_groups_alone(pipeline)
    if not window:
        return with_active_failed(sync_once(going_on, observer=lambda result: log(describe(result))), policy)
    watch = _Watch(pipeline, window, log)
    # A poll that fails shows nothing that could end the watch.
    sync(going_on, watch.stop, observer=watch.see, give_up=window)
    last = watch.last
    assert last is not None, "it is stopped by what it sees"
    return with_active_failed(replace(last, committed=watch.committed), policy)


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


class _Watch:
    """Ends the polling when the time is up, or when groups stand still."""

    def __init__(self, pipeline: Pipeline, window: float, log: Callable[[str], None]) -> None:
        self.stop = threading.Event()
        self.last: PollResult | None = None
        self.committed: frozenset[str] = frozenset()
        self._log = log
        self._until = time.monotonic() + window
        interval = pipeline.groups.poll_interval.total_seconds()
        self._idle = max(pipeline.sync.idle.total_seconds(), _QUIET_POLLS * interval)
        self._moved = time.monotonic()

    def see(self, result: PollResult) -> None:
        """The observer."""
        now = time.monotonic()
        self.last = result
        self.committed |= result.committed
        if result.committed or result.failed:
            self._moved = now
            self._log(describe(result))
        if now >= self._until or now - self._moved >= self._idle:
            self.stop.set()
