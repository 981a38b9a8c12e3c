"""The maintenance job and its schedule: one for all pipelines of a folder, and one a pipeline in somebody's project.

The pipelines of a project do not know each other, and Dagster refuses two jobs of one name.
"""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

import time
from collections.abc import Iterable, Sequence

import dagster as dg
from pydantic import Field

from k2k_assets.core.words import plural
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.maintenance.history import delete_history
from k2k_assets.orchestration.maintenance.keeping import DEFAULT_DAYS, KEEP_VARIABLE, Ours, keep_days
from k2k_assets.orchestration.names import (
    COMMON_MAINTENANCE,
    MAINTENANCE_TAGS,
    AssetNames,
    MaintenanceNames,
)
from k2k_assets.orchestration.runs.interruption import interruptible
from k2k_assets.orchestration.sensors.replication_sensor import default_status

# At night, and not on the full hour, when most other schedules run.
CRON = "17 3 * * *"
_DAY_SECONDS = 86_400.0


class KeepConfig(dg.Config):
    """Run config of the maintenance op."""

    keep_days: float | None = Field(
        default=None,
        gt=0,
        description=f"Days to keep runs and events; replaces {KEEP_VARIABLE} (default {DEFAULT_DAYS:g}).",
    )


def with_maintenance(definitions: dg.Definitions, pipeline: AssetNames) -> dg.Definitions:
    """Adds the job of one pipeline and its schedule.

    Args:
        definitions: Those of the pipeline.
        pipeline: Its names.
    """
    return dg.Definitions.merge(
        definitions, maintenance_definitions([pipeline], [definitions], names=pipeline.maintenance)
    )


def maintenance_definitions(
    pipelines: Sequence[AssetNames],
    definitions: Iterable[dg.Definitions],
    *,
    names: MaintenanceNames = COMMON_MAINTENANCE,
) -> dg.Definitions:
    """The job and its schedule.

    Args:
        pipelines: Names of the pipelines whose history it deletes.
        definitions: Those of the pipelines: what is shown.
        names: Names of the job, its schedule and its op.
    """
    assets = (asset for each in definitions for asset in each.assets or ())
    ours = Ours(pipelines, {key for asset in assets if isinstance(asset, dg.AssetsDefinition) for key in asset.keys})
    whose = f"pipeline {pipelines[0].pipeline}" if len(pipelines) == 1 else "these pipelines"

    @dg.op(name=names.op, out=dg.Out(dg.Nothing))
    @interruptible
    def delete_old_history(context: dg.OpExecutionContext, config: KeepConfig) -> None:
        with failures_as_messages():
            days = config.keep_days or keep_days()
            deleted = delete_history(context.instance, ours, time.time() - days * _DAY_SECONDS)
        context.log.info(
            f"older than {days:g} days: deleted {plural(deleted.runs, 'run')}, and "
            f"{plural(deleted.events, 'event')} without a run"
        )

    @dg.job(
        name=names.job,
        description=f"Deletes old runs and events of {whose} from Dagster's database. The newest events of each "
        f"asset and check stay, but not those of consumer groups that are gone. {KEEP_VARIABLE} sets how many days are "
        f"kept; the default is {DEFAULT_DAYS:g}.",
        tags=MAINTENANCE_TAGS,
        executor_def=dg.in_process_executor,
    )
    def maintain() -> None:
        delete_old_history()

    running = default_status() is dg.DefaultSensorStatus.RUNNING
    schedule = dg.ScheduleDefinition(
        name=names.schedule,
        job=maintain,
        cron_schedule=CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED,
        description="Once a day.",
    )
    return dg.Definitions(jobs=[maintain], schedules=[schedule])
