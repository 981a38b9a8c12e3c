"""Deletes old events from Dagster's tables.

Dagster itself deletes a run with all its events, or an asset with all its history; it cannot delete old events. So this
uses its tables, through the connections of its storage. With SQLite each run has its own file of events. Events of
assets are also in an index, with other ids, and queries about assets read the index. PostgreSQL has one table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import sqlalchemy as sa
from dagster._core.instance import RUNLESS_RUN_ID
from dagster._core.storage.asset_check_execution_record import COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    AssetKeyTable,
    SqlEventLogStorageTable,
)
from dagster._serdes import deserialize_value

_events, _checks = SqlEventLogStorageTable.c, AssetCheckExecutionsTable.c
_REPORTS = [dg.DagsterEventType.ASSET_MATERIALIZATION.value, dg.DagsterEventType.ASSET_OBSERVATION.value]
_OF_ASSETS = [*_REPORTS, dg.DagsterEventType.ASSET_CHECK_EVALUATION.value]
_COMPLETED = [status.value for status in COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES]
# Small transactions, because other writers to SQLite wait until one ends.
_ROWS_AT_ONCE = 500

Owns = Callable[[dg.AssetKey], bool]
_Connect = Callable[[], AbstractContextManager[sa.Connection]]


class Newest(NamedTuple):
    """Records that are kept at any age, because Dagster shows assets by them.

    Attributes:
        events: Ids of each asset's newest materialization and observation, and of the newest evaluation of its checks.
        evaluations: Ids of the newest evaluation of each check, and of the newest one that has ended.
        runs: The runs of these, and the last run of each asset, also a failed one.
    """

    events: frozenset[int]
    evaluations: frozenset[int]
    runs: frozenset[str]


class EventTables:
    """The events of a Dagster instance.

    Args:
        storage: The event log storage of the instance.
    """

    def __init__(self, storage: SqlEventLogStorage) -> None:
        self._storage = storage

    def newest(self, owns: Owns) -> Newest:
        """Returns the newest records.

        Args:
            owns: Selects the assets.
        """
        reports = self._newest_reports(owns)
        evaluations = self._newest_evaluations(owns)
        return Newest(
            frozenset([*(row.id for row in reports), *(row.evaluation_event_storage_id for row in evaluations)]),
            frozenset(row.id for row in evaluations),
            frozenset([*(row.run_id for row in [*reports, *evaluations]), *self._last_runs(owns)]),
        )

    def delete_run(self, run_id: str) -> None:
        """Deletes all events of a run; `delete_evaluations` deletes the evaluations of its checks.

        Args:
            run_id: Id of the run.
        """
        self._delete(self._storage.index_connection, SqlEventLogStorageTable, _events.run_id == run_id, lambda _: True)
        if isinstance(self._storage, SqliteEventLogStorage):
            # Dagster empties the file and keeps it, with a hundred kilobytes.
            file = Path(self._storage.path_for_shard(run_id))
            for suffix in ("", "-wal", "-shm"):
                file.with_name(file.name + suffix).unlink(missing_ok=True)

    def delete_evaluations(self, runs: Collection[str], owns: Owns, before: float, kept: Newest) -> None:
        """Deletes evaluations of checks, in one pass because this table has no index by run.

        Args:
            runs: Runs whose evaluations are deleted.
            owns: Selects the assets whose evaluations without a run are deleted.
            before: Only evaluations before this time; seconds since the epoch.
            kept: Records to keep.
        """

        def is_doomed(row: Any) -> bool:
            if row.id in kept.evaluations:
                return False
            return row.run_id in runs or (row.run_id == RUNLESS_RUN_ID and _owned(owns, row.asset_key))

        is_old = _checks.evaluation_event_timestamp < _naive(before)
        self._delete(self._storage.index_connection, AssetCheckExecutionsTable, is_old, is_doomed)

    def delete_reports(self, owns: Owns, before: float, kept: Newest) -> int:
        """Deletes asset events without a run, which sensors report, and runs beside their own events.

        Args:
            owns: Selects the assets.
            before: Only events before this time; seconds since the epoch.
            kept: Records to keep.

        Returns:
            Number of deleted events.
        """
        old = sa.and_(
            _events.run_id == RUNLESS_RUN_ID,
            _events.dagster_event_type.in_(_OF_ASSETS),
            _events.timestamp < _naive(before),
        )

        def is_doomed(row: Any) -> bool:
            # Dagster fills the column for all events except evaluations of checks.
            return _owned(owns, row.asset_key) if row.asset_key else owns(_checked_asset(row.event))

        if isinstance(self._storage, SqliteEventLogStorage):
            # The ids differ from those in the index, and nothing reads the newest events here.
            shard = partial(self._storage.run_connection, RUNLESS_RUN_ID)
            self._delete(shard, SqlEventLogStorageTable, old, is_doomed, _events.event)
        index = self._storage.index_connection
        return self._delete(
            index, SqlEventLogStorageTable, old, lambda row: row.id not in kept.events and is_doomed(row), _events.event
        )

    def forget_assets(self, is_gone: Owns, before: float) -> None:
        """Deletes what Dagster's catalog says of assets; each appears again with its next event.

        Args:
            is_gone: Selects the assets.
            before: Only assets without an event since this time; seconds since the epoch.
        """
        assets = AssetKeyTable.c
        is_old = sa.func.coalesce(assets.last_materialization_timestamp, assets.create_timestamp) < _naive(before)
        with self._storage.index_connection() as connection:
            for row in connection.execute(sa.select(assets.id, assets.asset_key).where(is_old)).all():
                if _owned(is_gone, row.asset_key):
                    connection.execute(AssetKeyTable.delete().where(assets.id == row.id, is_old))

    # -- questions ------------------------------------------------------------------------------------------------

    def _newest_reports(self, owns: Owns) -> list[Any]:
        newest = sa.select(sa.func.max(_events.id).label("id")).where(_events.dagster_event_type.in_(_REPORTS))
        return self._rows(
            sa.select(_events.id, _events.run_id, _events.asset_key),
            _events.id.in_(newest.group_by(_events.asset_key, _events.dagster_event_type)),
            owns,
        )

    def _newest_evaluations(self, owns: Owns) -> list[Any]:
        newest = sa.select(sa.func.max(_checks.id)).group_by(_checks.asset_key, _checks.check_name)
        return self._rows(
            sa.select(_checks.id, _checks.run_id, _checks.asset_key, _checks.evaluation_event_storage_id),
            sa.or_(_checks.id.in_(newest), _checks.id.in_(newest.where(_checks.execution_status.in_(_COMPLETED)))),
            owns,
        )

    def _last_runs(self, owns: Owns) -> list[str]:
        assets = AssetKeyTable.c
        rows = self._rows(sa.select(assets.last_run_id, assets.asset_key), assets.last_run_id.is_not(None), owns)
        return [row.last_run_id for row in rows]

    def _rows(self, question: Any, where: sa.ColumnElement[bool], owns: Owns) -> list[Any]:
        with self._storage.index_connection() as connection:
            rows = connection.execute(question.where(where)).all()
        return [row for row in rows if _owned(owns, row.asset_key)]

    # -- deletions ------------------------------------------------------------------------------------------------

    def _delete(
        self,
        connect: _Connect,
        table: sa.Table,
        where: sa.ColumnElement[bool],
        is_doomed: Callable[[Any], bool],
        *more: sa.ColumnElement[Any],
    ) -> int:
        """Deletes rows in batches, with the tags of their events."""
        columns = sa.select(table.c.id, table.c.run_id, table.c.asset_key, *more)
        count, last = 0, 0
        while True:
            question = columns.where(where, table.c.id > last).order_by(table.c.id).limit(_ROWS_AT_ONCE)
            with connect() as connection:
                rows = connection.execute(question).all()
                ids = [row.id for row in rows if is_doomed(row)]
                if ids and table is SqlEventLogStorageTable:
                    connection.execute(AssetEventTagsTable.delete().where(AssetEventTagsTable.c.event_id.in_(ids)))
                if ids:
                    connection.execute(table.delete().where(table.c.id.in_(ids)))
            count += len(ids)
            if len(rows) < _ROWS_AT_ONCE:
                return count
            last = rows[-1].id


def _owned(owns: Owns, asset_key: str | None) -> bool:
    key = dg.AssetKey.from_db_string(asset_key)
    return key is not None and owns(key)


def _checked_asset(event: str) -> dg.AssetKey:
    evaluation = deserialize_value(event, dg.EventLogEntry).get_dagster_event().asset_check_evaluation_data
    return evaluation.asset_key


def _naive(time: float) -> datetime:
    return datetime.fromtimestamp(time, UTC).replace(tzinfo=None)
