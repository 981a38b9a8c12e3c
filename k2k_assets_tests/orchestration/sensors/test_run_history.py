"""Which run is in progress, and what is said of it."""

from __future__ import annotations

import time

import dagster as dg

from k2k_assets.orchestration.sensors.run_history import running
from k2k_assets_tests.support.clock import FakeClock

TAGS = {"k2k/pipeline": "p"}


@dg.job
def nothing() -> None:
    """Is never run."""


def test_a_run_that_may_be_dead_is_told_with_what_to_do() -> None:
    """Its machine was lost: its record stays in progress for ever, and sensors would wait without a word."""
    with dg.DagsterInstance.ephemeral() as instance:
        assert running(instance, TAGS, []) is None
        run = instance.create_run_for_job(nothing, tags=TAGS)
        assert running(instance, TAGS, []) == run.run_id
        told = running(instance, TAGS, [], FakeClock(time.time() + 5 * 3600))
    assert told
    assert told.startswith(f"{run.run_id} (since 5 h; if its process is gone, end it in Dagster's UI")
