"""An interrupted step shows no frame of ours, wherever it was interrupted."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.decorators.op_decorator import DecoratedOpFunction

from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.orchestration.maintenance.job import maintenance_definitions
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.pipeline_definitions import pipeline_definitions
from k2k_assets.orchestration.runs.interruption import WHAT_FOLLOWS, WORDS, interruptible, telling_of_termination
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.dagster.errors import errors_in, frames_of

pytestmark = pytest.mark.processes

OURS = "k2k_assets"
CANCELING = {"canceling": "yes"}

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Amount(dg.Config):
    """Config of a step."""

    amount: int = 1


class Closed(list[str]):
    """What was closed on the way out."""


def interrupted(context: dg.AssetExecutionContext, closed: Closed) -> None:
    """As Terminate in the UI does it, at a bad moment and in the middle of something that has to be closed."""
    if context.run.tags.get("canceling"):
        context.instance.report_run_canceling(context.run)
    try:
        try:
            raise OSError("what was wrong a moment before")
        except OSError:
            signal.raise_signal(signal.SIGINT)
    finally:
        closed.append("by a finally")


def function(decorate: Decorator, closed: Closed) -> dg.AssetsDefinition:
    @dg.multi_asset(outs={"one": dg.AssetOut(dagster_type=dg.Nothing)})
    @decorate
    def step(context: dg.AssetExecutionContext, config: Amount) -> dg.MaterializeResult[None]:
        assert config.amount == 1
        interrupted(context, closed)
        return dg.MaterializeResult()

    return step


def generator(decorate: Decorator, closed: Closed) -> dg.AssetsDefinition:
    @dg.multi_asset(outs={name: dg.AssetOut(dagster_type=dg.Nothing, is_required=False) for name in ("one", "two")})
    @decorate
    def step(context: dg.AssetExecutionContext, config: Amount) -> Iterator[dg.MaterializeResult[None]]:
        assert config.amount == 1
        with telling_of_termination(context):
            yield dg.MaterializeResult(asset_key="one")
            interrupted(context, closed)
            yield dg.MaterializeResult(asset_key="two")

    return step


class Ran:
    """A run of one step that is interrupted.

    Args:
        step: The step.
        tags: Of the run.
    """

    def __init__(self, step: dg.AssetsDefinition, tags: dict[str, str]) -> None:
        job = dg.Definitions(assets=[step]).resolve_implicit_global_asset_job_def()
        with dg.instance_for_test() as instance:
            result = job.execute_in_process(instance=instance, raise_on_error=False, tags=tags)
            run = instance.get_run_by_id(result.run_id)
            assert run is not None
            self.status = run.status
            self.events = result.all_events
            self.said = [entry.user_message for entry in instance.all_logs(result.run_id)]
        self.errors = errors_in(self.events)


@pytest.mark.parametrize("step", [function, generator])
def test_an_interruption_has_words_and_no_frame_of_ours(
    step: Callable[[Decorator, Closed], dg.AssetsDefinition],
) -> None:
    closed = Closed()
    ran = Ran(step(interruptible, closed), CANCELING)
    assert ran.status is dg.DagsterRunStatus.CANCELED
    assert closed == ["by a finally"]
    assert len(ran.errors) == 2, "of the step, and of the run"
    assert {error.message.strip() for error in ran.errors} == {
        f"dagster._core.errors.DagsterExecutionInterruptedError: {WORDS}"
    }
    assert all(error.stack for error in ran.errors), "where Dagster was stays"
    assert frames_of(ran.errors, OURS) == []

    undecorated = Ran(step(lambda compute: compute, closed), CANCELING)
    assert frames_of(undecorated.errors, OURS) != [], "what this test looks for is found where it is"


def test_what_came_before_counts_and_only_who_was_terminated_says_so() -> None:
    terminated, interrupted = (Ran(generator(interruptible, Closed()), tags) for tags in (CANCELING, {}))
    for ran in (terminated, interrupted):
        assert [e.asset_key for e in ran.events if e.is_step_materialization] == [dg.AssetKey("one")]
    assert sum(WHAT_FOLLOWS in said for said in terminated.said) == 1
    assert not any(WHAT_FOLLOWS in said for said in interrupted.said), "the sensor replaces it"
    assert interrupted.status is dg.DagsterRunStatus.FAILURE


def test_an_error_keeps_its_frames() -> None:
    @dg.asset
    @interruptible
    def broken() -> None:
        raise ValueError("a fault of ours")

    assert frames_of(Ran(broken, {}).errors, OURS) != []


@pytest.mark.parametrize("topics", [{"a": DiscoveredTopic(1, "a")}, {}], ids=["discovered", "undiscovered"])
@pytest.mark.parametrize("groups", [("g",), ()], ids=["with a group", "without"])
def test_each_step_of_a_pipeline_is_one(tmp_path: Path, topics: dict[str, DiscoveredTopic], groups: tuple[str]) -> None:
    features = {"offsetMapping": "enabled"}
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*", features=features, groups={"consumerGroups": ".*"})
    found = Discovery(pipeline.name, 0, "source", "target", topics, groups)
    names = AssetNames(pipeline.name)
    definitions = dg.Definitions.merge(pipeline_definitions(pipeline, found), maintenance_definitions([names], []))
    graph = definitions.resolve_asset_graph()
    ops = {op for assets in graph.assets_defs for op in assets.node_def.iterate_op_defs()}
    ops |= {op for job in definitions.resolve_all_job_defs() for op in job.graph.iterate_op_defs()}
    steps = {op.name: op.compute_fn for op in ops}
    bare = {
        n for n, f in steps.items() if isinstance(f, DecoratedOpFunction) and not hasattr(f.decorated_fn, "__wrapped__")
    }
    assert len(ops) >= 7
    assert bare == set()
