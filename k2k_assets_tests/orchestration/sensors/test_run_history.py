"""Runs in progress, and the last run."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import dagster as dg

from k2k_assets.orchestration.sensors.run_history import running

TAGS = {"k2k/pipeline": "p"}


@dg.job
def nothing() -> None:
    """Is never run."""


def test_a_run_whose_process_is_gone_does_not_hold_up_the_next_one_for_ever() -> None:
    """Its record stays in progress: the mappings would never be brought up to date again, nor checked."""
    with dg.DagsterInstance.ephemeral() as instance:
        assert running(instance, TAGS, []) is None
        run = instance.create_run_for_job(nothing, tags=TAGS)
        assert running(instance, TAGS, []) == run.run_id
        for hours, found in ((1, run.run_id), (7, None)):
            _started(instance, run, time.time() - hours * 3600)
            assert running(instance, TAGS, []) == found


def _started(instance: dg.DagsterInstance, run: dg.DagsterRun, when: float) -> None:
    event = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
    instance.run_storage.handle_run_event(run.run_id, event, datetime.fromtimestamp(when, UTC))
