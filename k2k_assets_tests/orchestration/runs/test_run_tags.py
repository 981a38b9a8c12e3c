"""Tags of runs that sensors read."""

from __future__ import annotations

import dagster as dg

from k2k_assets.orchestration.runs.run_tags import has_worked, window_of, window_tags, worked_tags


def test_a_run_that_is_executed_again_has_not_worked_because_the_former_one_had() -> None:
    """Dagster copies the tags."""
    tags = worked_tags("first")
    assert has_worked(dg.DagsterRun(job_name="job", run_id="first", tags=tags))
    assert not has_worked(dg.DagsterRun(job_name="job", run_id="second", tags=tags))
    assert not has_worked(dg.DagsterRun(job_name="job", run_id="first"))


def test_a_window_is_read_as_it_was_written() -> None:
    assert window_of(window_tags(5400.0)) == 5400.0
    assert window_of({}) is None
