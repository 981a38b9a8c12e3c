"""Why a check reports a stopped topic: open-source Dagster stores no failure event for one asset of a run.

When one of these tests fails, Dagster can do it: then a run that copies can report `AssetMaterializationFailure` for
the topic alone, and docs/dagster.md ("A topic that stops") must change too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.events import (
    AssetMaterializationFailure,
    AssetMaterializationFailureReason,
    AssetMaterializationFailureType,
)
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID

_KEY = dg.AssetKey(["p", "topics", "orders"])
_FAILURE = AssetMaterializationFailure(
    _KEY,
    AssetMaterializationFailureType.FAILED,
    AssetMaterializationFailureReason.FAILED_TO_MATERIALIZE,
    description="records 10 to 19 were deleted from the source before they were copied",
)


@contextmanager
def _instance(directory: Path | None) -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(temp_dir=str(directory)) if directory else dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.mark.parametrize("in_memory", [False, True], ids=["sqlite", "memory"])
def test_a_failure_of_one_asset_is_dropped_where_it_is_reported(tmp_path: Path, in_memory: bool) -> None:
    with _instance(None if in_memory else tmp_path) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization(_KEY))
        instance.report_dagster_event(
            DagsterEvent.build_asset_failed_to_materialize_event(RUNLESS_JOB_NAME, None, _FAILURE), RUNLESS_RUN_ID
        )
        told = {
            record.event_log_entry.dagster_event_type for record in instance.get_records_for_run(RUNLESS_RUN_ID).records
        }
        assert told == {DagsterEventType.ASSET_MATERIALIZATION}
        (record,) = instance.get_asset_records([_KEY])
        assert record.asset_entry.last_failed_to_materialize_record is None
        assert not instance.can_read_asset_failure_events(), "nor would the UI show it"


def test_it_is_no_event_that_a_run_or_a_sensor_may_report(tmp_path: Path) -> None:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance, pytest.raises(dg.DagsterInvariantViolationError):
        instance.report_runless_asset_event(_FAILURE)  # type: ignore[arg-type]  # what is refused here


def test_postgres_keeps_none_either() -> None:
    """The answer of every storage but Dagster's own hosted one: it is no setting."""
    from dagster_postgres.event_log import PostgresEventLogStorage

    assert PostgresEventLogStorage.can_store_asset_failure_events.fget is not None  # type: ignore[attr-defined]
    assert not PostgresEventLogStorage.can_store_asset_failure_events.fget(None)  # type: ignore[attr-defined]
