"""What the driver does while the slots of a generation work."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.replication.driver import job_watch as module
from k2k_assets.replication.driver.events import ProgressRead
from k2k_assets.replication.driver.progress import Progress
from k2k_assets_tests.replication.driver.fakes import instance_on


def test_slots_are_asked_to_end_until_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop record whose write failed may be there or not: if they end by it, that is no end of the instance."""
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "_ASK_AGAIN_SECONDS", 0.02)
    job: Any = SimpleNamespace(done=threading.Event(), superseded=None, superseded_by={})
    written: list[bool] = []

    def write_stop(pipeline: Any, generation: int, again: bool) -> None:
        written.append(again)
        if len(written) == 3:
            job.done.set()
        else:
            raise ClusterUnreachable("no acknowledgement")

    monkeypatch.setattr(module, "write_stop", write_stop)
    grounds: list[Any] = [SimpleNamespace(partitions=names, topic_ids={}) for names in ([], ["new"])]
    before, after = grounds
    instance = instance_on(before, SimpleNamespace(refresh=lambda snapshot: after if snapshot is before else None))
    asked = instance._watch.until_done(job, threading.Event())
    assert written == [True, True, True]
    assert asked, "a new generation is needed, for what is new"
    assert instance._generations.snapshot is after
    assert not instance._is_over(job, asked)


def test_a_source_that_is_away_for_long_tells_no_ends() -> None:
    """Who listens would take old ends for those of today: nothing would seem to wait."""
    without, told = Progress({}, 1.0), list[Any]()

    def refresh() -> Progress:
        raise ClusterUnreachable("the source does not answer")

    instance = instance_on(SimpleNamespace(partitions=[], topic_ids={}), SimpleNamespace())
    generations: Any = SimpleNamespace(
        progress=SimpleNamespace(refresh=refresh, as_seen_now=lambda: without),
        peers=SimpleNamespace(paused={}),
        listener=told.append,
    )
    instance._watch.generations = generations
    instance._watch._observe()
    assert told == [ProgressRead(without)]
