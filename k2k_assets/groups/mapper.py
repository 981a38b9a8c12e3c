"""Runs the mapper: once, or poll after poll until it is stopped. It waits out passing errors."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from k2k_assets.core.errors import ClusterUnreachable, K2KError, Refused
from k2k_assets.groups.heartbeat import mapper_heartbeats
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.kafka.topic_follower import Replaced
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.groups")

Observer = Callable[[PollResult], None]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
# A cluster that is starting refuses requests for a moment; a refusal that lasts longer than this is final.
_REFUSED_SECONDS = 30.0
# How long `sync_once` repeats polls for groups that could not be read or committed.
_ONCE_SECONDS = 30.0


def sync_once(
    pipeline: Pipeline, *, stop: threading.Event | None = None, observer: Observer | None = None
) -> PollResult:
    """Translates and commits the positions of all groups once.

    It supersedes a running mapper of the same pipeline. It tries groups that could not be read or committed again for
    half a minute.

    Args:
        pipeline: The pipeline.
        stop: When set, no further try is made.
        observer: Called with the result of each poll.

    Returns:
        The last poll; its `failed` names the groups that still could not be read or committed.

    Raises:
        ClusterUnreachable: A cluster does not answer.
        Refused: A topic or a permission is missing, or a cluster refuses; nothing was committed.
        Superseded: A newer mapper has taken over.
        ActiveGroup: See `errorHandling.onActiveConsumerGroupCommit`.
        MultipleMappings: See `errorHandling.onMultipleTargetCommittedOffsets`.
    """
    stop = stop or threading.Event()
    until = time.monotonic() + _ONCE_SECONDS
    committed: frozenset[str] = frozenset()
    with both_clusters(pipeline) as (source, target), Poller(pipeline, source, target) as poller:
        poller.start()
        while True:
            result = poller.poll()
            poller.await_visible(result)
            committed |= result.committed
            if observer:
                observer(result)
            if not result.failed or time.monotonic() >= until or stop.wait(_FIRST_PAUSE):
                return replace(result, committed=committed)
            _renew(source, target)


def sync(
    pipeline: Pipeline,
    stop: threading.Event,
    *,
    observer: Observer | None = None,
    timeout: float | None = None,
    on_trouble: Callable[[K2KError], None] | None = None,
    run: str | None = None,
    held_back: Callable[[], str] = str,
) -> None:
    """Translates and commits the positions of all groups, poll after poll, until it is stopped.

    It waits out passing errors, as when a broker restarts; before the first poll it raises them.

    Args:
        pipeline: The pipeline; `groups.pollInterval` lies between the beginnings of two polls.
        stop: When set, the mapper ends after the present poll.
        observer: Called with the result of each poll, once readers see its commits.
        timeout: Seconds that a call to a cluster may take; None: the default of `Cluster`.
        on_trouble: Called with each error that is waited out.
        run: Id of the mapper's Dagster run; None outside Dagster.
        held_back: Called right before each commit: returns why the groups are held back, or an empty text.

    Raises:
        ClusterUnreachable: A cluster does not answer at the start.
        Refused: A topic or a permission is missing, or a cluster refuses for long.
        Superseded: A newer mapper has taken over.
        ActiveGroup: See `errorHandling.onActiveConsumerGroupCommit`.
        MultipleMappings: See `errorHandling.onMultipleTargetCommittedOffsets`.
    """
    interval = pipeline.groups.poll_interval.total_seconds()
    trouble = _Trouble()
    alive = mapper_heartbeats(pipeline, run)
    with (
        both_clusters(pipeline, timeout) as (source, target),
        Poller(pipeline, source, target, alive=alive, held_back=held_back) as poller,
    ):
        poller.start()
        while not stop.is_set():
            began = time.monotonic()
            for cluster in (source, target):
                cluster.renew_if_disturbed()
            try:
                result = poller.poll()
                if observer:
                    poller.await_visible(result)
            except Replaced:
                raise
            except (ClusterUnreachable, Refused) as error:
                if on_trouble:
                    on_trouble(error)
                _renew(source, target)
                stop.wait(trouble.pause(error))
                continue
            trouble = _Trouble()
            if result.failed:
                _renew(source, target)
            if observer:
                observer(result)
            stop.wait(max(0.0, began + interval - time.monotonic()))


def _renew(*clusters: Cluster) -> None:
    """Drops clients: one that has lost a group's coordinator may never find it again (librdkafka 2.16)."""
    for cluster in clusters:
        cluster.close()


class _Trouble:
    """The polls that failed in a row."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._pause = _FIRST_PAUSE

    def pause(self, error: ClusterUnreachable | Refused) -> float:
        """How long to wait before the next poll; raises a refusal that lasts too long."""
        if self._since is None:
            self._since = time.monotonic()
        lasted = time.monotonic() - self._since
        if isinstance(error, Refused) and lasted > _REFUSED_SECONDS:
            raise error
        log.warning("the poll failed and is tried again in %.1f s: %s", self._pause, error)
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        return pause
