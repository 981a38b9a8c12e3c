"""`build_k2k_assets` in a project's own definitions: merged, loaded, and run by its executor on real clusters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets import build_k2k_assets
from k2k_assets.core.errors import PipelineFileError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.discovery import refresh
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.cli.commands.test_start_imports import imported_by
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline

# Nothing listens there, so a request to a broker would fail.
NOBODY = "127.0.0.1:1"
_PROJECT = """\
import dagster as dg
from k2k_assets import build_k2k_assets


class Warehouse(dg.ConfigurableResource):
    name: str


@dg.asset(deps=[dg.AssetKey({key})])
def report(warehouse: Warehouse) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={{"warehouse": warehouse.name}})


defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[report], executor=dg.multiprocess_executor, resources={{"warehouse": Warehouse(name="north")}}
    ),
    build_k2k_assets({path!r}),
)
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))


def _executors(definitions: dg.Definitions) -> dict[str, str]:
    return {job.name: job.executor_def.name for job in definitions.get_repository_def().get_all_jobs()}


def _own(executor: dg.ExecutorDefinition) -> dg.Definitions:
    @dg.asset(required_resource_keys={"warehouse"})
    def report() -> None: ...

    return dg.Definitions(
        assets=[report],
        jobs=[dg.define_asset_job("own", [report])],
        executor=executor,
        resources={"warehouse": dg.ResourceDefinition.hardcoded_resource("north")},
    )


@pytest.mark.parametrize("executor", [dg.multiprocess_executor, dg.in_process_executor], ids=lambda one: one.name)
def test_it_merges_and_leaves_the_executor_of_others_alone(tmp_path: Path, executor: dg.ExecutorDefinition) -> None:
    path = write_pipeline(tmp_path, NOBODY, NOBODY, ["one", "two"], features={"offsetMapping": "enabled"})
    made = build_k2k_assets(path)
    assert made.executor is None
    merged = dg.Definitions.merge(_own(executor), made)
    names = AssetNames(load_pipeline([path]).name)
    own_jobs = (names.job, names.sync_job, names.mappings_job, names.offset_sync_job, names.maintenance.job)
    ours = dict.fromkeys(own_jobs, "in_process")
    assert _executors(merged) == {**ours, "own": executor.name, "__ASSET_JOB": executor.name}
    assert merged.resolve_asset_graph().get_all_asset_keys() >= {dg.AssetKey("report"), names.topic_key("two")}


def test_several_pipelines_in_one_project(tmp_path: Path) -> None:
    paths = [write_pipeline(tmp_path, NOBODY, NOBODY, ["one"]) for _ in range(2)]
    both = dg.Definitions.merge(*map(build_k2k_assets, paths))
    sensors = {sensor.name for sensor in both.get_repository_def().sensor_defs}
    assert sensors == {AssetNames(load_pipeline([path]).name).sensor for path in paths}
    assert len(sensors) == 2
    schedules = {schedule.name for schedule in both.get_repository_def().schedule_defs}
    assert schedules == {AssetNames(load_pipeline([path]).name).maintenance.schedule for path in paths}


def test_several_files_are_one_pipeline(tmp_path: Path) -> None:
    path = write_pipeline(tmp_path, NOBODY, NOBODY, ["one"])
    more = tmp_path / "more.yaml"
    more.write_text("name: production\n")
    keys = build_k2k_assets([path, str(more)]).resolve_asset_graph().get_all_asset_keys()
    assert AssetNames("production").topic_key("one") in keys


def test_a_file_that_cannot_be_used_is_refused_with_all_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text("name: orders\nfoo: 1\nbar: 2\n")
    with pytest.raises(
        PipelineFileError, match=r"orders.yaml:2:1: foo: unknown key(.|\n)*orders.yaml:3:1: bar: unknown key"
    ):
        build_k2k_assets(path)


@pytest.mark.slow
def test_importing_the_package_imports_nothing() -> None:
    """`k2k start` begins with it."""
    assert not {
        name for name in imported_by("import k2k_assets") if "dagster" in name or name.startswith("k2k_assets.")
    }
    assert "dagster" in imported_by("from k2k_assets import build_k2k_assets"), "this test sees what is imported"


def test_what_the_package_does_not_have_is_missed_as_usual() -> None:
    import k2k_assets

    assert {"build_k2k_assets", "K2KPipelineComponent"} <= {*dir(k2k_assets)}
    with pytest.raises(AttributeError, match="module 'k2k_assets' has no attribute 'build'"):
        k2k_assets.build  # noqa: B018


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.spark
def test_a_click_under_the_projects_own_executor(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """Each step in a process of its own: all that the one step leaves, the next one finds."""
    prefix = unique("click")
    topic, group = create_topic(clusters.source_servers, f"{prefix}.orders"), f"{prefix}-billing"
    produce(clusters.source_servers, topic, [b"%d" % i for i in range(100)])
    at = TopicPartition(topic, 0)
    commit(clusters.source_servers, group, {at: 40})
    path = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        f"{prefix}.*",
        features={"offsetMapping": "enabled", "exactlyOnce": "enabled"},
        groups={"consumerGroups": f"{prefix}-.*"},
        spark={"config": {"spark.sql.shuffle.partitions": "2"}},  # for a handful of records
    )
    pipeline = load_pipeline([path])
    names = AssetNames(pipeline.name)
    with both_clusters(pipeline) as (source, target):
        refresh(pipeline, source, target)
    home, jvms = tmp_path / "dagster", tmp_path / "jvms"
    home.mkdir()
    jvms.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    project = tmp_path / "definitions.py"
    project.write_text(_PROJECT.format(key=list(names.topic_key(topic).path), path=str(path)))
    selection = [names.topic_key(topic), names.commit_log_key, names.offset_mappings_key]
    selection += [names.consumer_group_key(group), dg.AssetKey("report")]
    tool = Path(sys.executable).with_name("dagster")
    selected = " or ".join(f'key:"{key.to_user_string()}"' for key in selection)
    done = subprocess.run(
        [str(tool), "asset", "materialize", "-f", str(project), "--select", selected],
        env={
            **os.environ,
            "DAGSTER_HOME": str(home),
            "SPARK_SUBMIT_OPTS": f"{os.environ['SPARK_SUBMIT_OPTS']} -Xlog:os=error:file={jvms}/%p",  # a file for each
        },
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with dg.DagsterInstance.from_config(str(home)) as instance:
        (run,) = instance.get_runs()
        events = [entry.dagster_event for entry in instance.all_logs(run.run_id) if entry.dagster_event]
    materialized = {event.asset_key for event in events if event.is_step_materialization}
    assert materialized == {*selection}
    passed = {
        e.asset_check_evaluation_data.check_name
        for e in events
        if e.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION and e.asset_check_evaluation_data.passed
    }
    assert passed >= {*CHECKS, "copies_on", "as_configured", "resumes_exactly"}
    steps = [event for event in events if event.is_step_start]
    assert len({event.pid for event in steps}) == len(steps) == 7, "a process each"
    assert len(read_all(clusters.target_servers, topic)) == 100
    assert held(clusters.target_servers, group)[at][0] == 40
    assert len([*jvms.iterdir()]) == 4, "for the copy, the commit log, the index, and for all its checks"
