"""Runs every command and every example of docs/dagster.md in a project that `create-dagster` makes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets.orchestration.names import AssetNames
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique

pytestmark = [pytest.mark.integration, pytest.mark.spark]

PAGE = (Path(__file__).parents[3] / "docs" / "dagster.md").read_text(encoding="utf-8")
NAMES = AssetNames("orders")
# Commands of the page that another test runs: `dagster dev` with a daemon, in sensors/test_daemon.py.
_ELSEWHERE = ["dagster dev -m k2k_assets.definitions"]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


class Project:
    """The project, and the page's commands in it.

    Args:
        directory: Where to make it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.dagster_home = directory / "dagster"
        self.dagster_home.mkdir()
        (self.dagster_home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
        self.package = directory / "shop" / "src" / "shop"
        self.pipeline = self.package / "defs" / "orders"
        self.left = [line for block in _blocks("sh") for line in block.splitlines() if line not in _ELSEWHERE]

    def run(self, beginning: str) -> str:
        """Runs the page's next command, which begins with some words; returns what it printed."""
        command = self.left.pop(0)
        assert command.startswith(beginning), command
        program, *arguments = shlex.split(command)
        place = self._directory if program == "create-dagster" else self._directory / "shop"
        tools = Path(sys.executable).parent
        environment = {
            **os.environ,
            "DAGSTER_HOME": str(self.dagster_home),
            "PYTHONPATH": str(self.package.parent),  # as if it were installed
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
        }
        done = subprocess.run(
            [str(tools / program), *arguments], cwd=place, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@pytest.mark.slow
def test_the_page_is_true(clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    project = Project(tmp_path)
    project.run("create-dagster project")
    assert "k2k_assets.K2KPipelineComponent" in project.run("dg list components")
    project.run("dg scaffold defs k2k_assets.K2KPipelineComponent orders")
    prefix = unique("project")
    topic = create_topic(clusters.source_servers, f"{prefix}.orders")
    produce(clusters.source_servers, topic, [b"%d" % i for i in range(50)])
    _point_at(project.pipeline / "pipeline.yaml", clusters, prefix)
    _take_over_the_examples(project)
    project.run("dg check yaml")
    project.run("dg check defs")
    project.run("dg launch")
    with dg.DagsterInstance.from_config(str(project.dagster_home)) as instance:
        (run,) = instance.get_runs()
        logs = instance.all_logs(run.run_id)
    told = [entry.user_message for entry in logs]
    assert told.index("the audit begins") < told.index("the audit ends")
    events = [entry.dagster_event for entry in logs if entry.dagster_event]
    (start,) = (event for event in events if event.event_type is dg.DagsterEventType.RUN_START)
    (step,) = (event for event in events if event.is_step_start)
    assert step.step_key == NAMES.op("topics"), "before the first discovery it stands for all topics"
    assert step.pid != start.pid, "the project's executor"
    assert len(read_all(clusters.target_servers, topic)) == 50
    with (project.pipeline / "defs.yaml").open("a") as defs_yaml:
        defs_yaml.write("  defs_state: { management_type: LOCAL_FILESYSTEM }\n")
    project.run("dg utils refresh-defs-state")
    assert project.left == []
    (state,) = (project.package.parent.parent / "src").rglob("state")
    assert [*json.loads(state.read_text())["topics"]] == [topic]


def _point_at(file: Path, clusters: KafkaSandbox, prefix: str) -> None:
    """The pipeline that was scaffolded, on the test's clusters and topics, with control topics of its own."""
    text = file.read_text()
    for said, meant in (
        ("localhost:9092", clusters.source_servers),
        ("localhost:9093", clusters.target_servers),
        ("orders[.].*", f"{prefix}[.].*"),
        ("k2k.orders", f"k2k.{prefix}"),
    ):
        assert f'"{said}"' in text
        text = text.replace(f'"{said}"', f'"{meant}"')
    file.write_text(
        f"{text}\n"
        f"groups: {{ consumerGroups: '{prefix}-.*' }}\n"
        f"coordination: {{ commit: {{ topic: {prefix}-commits }}, assignment: {{ topic: {prefix}-claims }} }}\n"
        f"offsetMapping: {{ topic: {prefix}-mappings }}\n"
    )


def _take_over_the_examples(project: Project) -> None:
    """The page's `defs.yaml` and its subclass."""
    (defs_yaml,) = _blocks("yaml")
    (subclass,) = (block for block in _blocks("python") if "class " in block)
    components = project.package / "components"
    components.mkdir(exist_ok=True)
    (components / "__init__.py").touch()
    (components / "audited.py").write_text(subclass)
    own = defs_yaml.replace("k2k_assets.K2KPipelineComponent", "shop.components.audited.AuditedPipeline")
    assert own != defs_yaml
    (project.pipeline / "defs.yaml").write_text(own)
