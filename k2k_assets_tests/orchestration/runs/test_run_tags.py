"""Tags of runs that sensors read."""

from __future__ import annotations

import dagster as dg
from dagster._core.storage.tags import TagType, get_tag_type

from k2k_assets.orchestration.runs.run_process import process_tags
from k2k_assets.orchestration.runs.run_tags import has_worked, window_of, window_tags, worked_tags


def test_a_run_that_is_executed_again_has_not_worked_because_the_former_one_had() -> None:
    """Dagster copies the tags."""
    tags = worked_tags("first")
    assert has_worked(dg.DagsterRun(job_name="job", run_id="first", tags=tags))
    assert not has_worked(dg.DagsterRun(job_name="job", run_id="second", tags=tags))
    assert not has_worked(dg.DagsterRun(job_name="job", run_id="first"))


def test_what_only_sensors_read_is_not_shown() -> None:
    hidden = [*worked_tags("run"), *process_tags("run")]
    assert len(hidden) == 2
    assert {get_tag_type(tag) for tag in hidden} == {TagType.HIDDEN}
    assert {get_tag_type(tag) for tag in window_tags(60)} == {TagType.USER_PROVIDED}


def test_a_window_is_read_as_it_was_written() -> None:
    assert window_of(window_tags(5400.0)) == 5400.0
    assert window_of({}) is None
