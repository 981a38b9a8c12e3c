"""Whole runs of a pipeline by Dagster's command line, and what they have logged."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import yaml

from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline


def of_everything(pipeline: Pipeline, folder: Path) -> list[str]:
    """Arguments of `python`: all assets and checks of a pipeline are made, until it is caught up.

    Args:
        pipeline: The pipeline.
        folder: Gets the run's settings.
    """
    names = AssetNames(pipeline.name)
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"ops": {names.op("topics"): {"config": {"extent": "caught_up"}}}}))
    return ["-m", "dagster", "job", "execute", "-m", "k2k_assets.definitions", "-j", names.job, "-c", str(config)]


def logged_events(home: Path) -> list[dg.DagsterEvent]:
    """All events of the runs in a `DAGSTER_HOME`, the oldest run first."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runs = sorted(instance.get_run_records(), key=lambda record: record.create_timestamp)
        entries = [entry for run in runs for entry in instance.all_logs(run.dagster_run.run_id)]
    return [entry.dagster_event for entry in entries if entry.dagster_event is not None]


def last_verdicts(home: Path) -> dict[str, bool]:
    """Whether each check passed when it was evaluated last."""
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    found = [event.asset_check_evaluation_data for event in logged_events(home) if event.event_type == kind]
    return {evaluation.check_name: evaluation.passed for evaluation in found}
