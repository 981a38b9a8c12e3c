"""Materializes every asset of a pipeline through Dagster: runs the same job as the UI, in this process."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from k2k_assets.orchestration.names import AssetNames

if TYPE_CHECKING:
    from dagster import DagsterEvent, ExecuteInProcessResult
    from dagster._core.events.log import EventLogEntry as EventLogEntry

Metadata = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of an asset check.

    Attributes:
        name: Name of the check.
        judgement: "passed", "warned" or "failed".
        summary: The evidence in one sentence.
        asset: The key of its asset, with slashes.
    """

    name: str
    judgement: str
    summary: str
    asset: str = ""


@dataclass(frozen=True, slots=True)
class Materialized:
    """The result of a run of the job.

    Attributes:
        metadata: Metadata of each materialized asset, by its key with slashes.
        checks: Results of the checks, in the order in which they ran.
        failures: A line for each failed step.
        missing: Materializable assets that were not materialized.
    """

    metadata: Mapping[str, Metadata]
    checks: tuple[CheckResult, ...]
    failures: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The definitions of a pipeline.

    Attributes:
        definitions: The definitions.
        names: The pipeline's names.
        assets: Keys of the materializable assets, with slashes.
        checks: Number of asset checks.
    """

    definitions: dg.Definitions
    names: AssetNames
    assets: frozenset[str]
    checks: int


def load(definitions: dg.Definitions, pipeline_name: str) -> Loaded:
    """Resolves the definitions as Dagster does.

    Args:
        definitions: Definitions of all pipelines.
        pipeline_name: The pipeline to materialize.
    """
    graph = definitions.resolve_asset_graph()
    assets = frozenset(key.to_user_string() for key in graph.materializable_asset_keys)
    return Loaded(definitions, AssetNames(pipeline_name), assets, len(graph.asset_check_keys))


def materialize(loaded: Loaded, listener: Callable[[EventLogEntry], None]) -> Materialized:
    """Runs the job that materializes everything, until everything is copied that was on the source at the start.

    Args:
        loaded: The definitions.
        listener: Receives each event and each log line of the run at once.

    Raises:
        KeyboardInterrupt: It was interrupted; all copied records are committed.
    """
    run_id = str(uuid.uuid4())
    names = loaded.names
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_event_listener(run_id, listener)
        try:
            result = loaded.definitions.resolve_job_def(names.job).execute_in_process(
                run_id=run_id,
                instance=instance,
                run_config={"ops": {names.op("topics"): {"config": {"extent": "caught_up"}}}},
                raise_on_error=False,
            )
        except dg.DagsterExecutionInterruptedError:
            raise KeyboardInterrupt from None
    return _materialized(loaded, result)


def _materialized(loaded: Loaded, result: ExecuteInProcessResult) -> Materialized:
    failures = [event for event in result.all_events if event.is_step_failure]
    if any(interrupted(event) for event in failures):
        raise KeyboardInterrupt
    metadata = {
        event.asset_key.to_user_string(): {key: value.value for key, value in event.materialization.metadata.items()}
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }
    return Materialized(
        metadata=metadata,
        checks=tuple(_check(evaluation) for evaluation in result.get_asset_check_evaluations()),
        failures=tuple(_failure(event) for event in failures),
        missing=tuple(sorted(loaded.assets.difference(metadata))),
    )


def _check(evaluation: dg.AssetCheckEvaluation) -> CheckResult:
    warned = evaluation.severity is dg.AssetCheckSeverity.WARN
    judgement = "passed" if evaluation.passed else "warned" if warned else "failed"
    return CheckResult(
        evaluation.check_name, judgement, evaluation.description or "", evaluation.asset_key.to_user_string()
    )


def _failure(event: DagsterEvent) -> str:
    error = event.step_failure_data.error
    while error and error.cause:  # Dagster wraps the error of the asset
        error = error.cause
    return f"{event.step_key}: {error.message.strip() if error else 'no reason given'}"


def interrupted(event: DagsterEvent) -> bool:
    """Whether a step failed because somebody terminated the run."""
    error = event.step_failure_data.error
    return bool(error and error.cls_name in ("DagsterExecutionInterruptedError", "KeyboardInterrupt"))
