"""The wheel, installed without a clone; also as `docs/operations.md` says, with all that it needs, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets_tests.support.brokers.kafka import read_all, topics
from k2k_assets_tests.support.services.operations_page import INSTALLATION, below, commands
from k2k_assets_tests.support.services.wheels import OF_TESTS_ALONE, ROOT, built_wheel, plain_environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("tree"))


def test_it_holds_the_whole_product_and_no_tests(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    product = (path for path in (ROOT / "k2k_assets").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert names == {str(path.relative_to(ROOT)) for path in product}


def test_the_commands_run_of_it(wheel: Path, tmp_path: Path) -> None:
    """With the libraries of this environment, but from the wheel alone."""
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    program = "import sys, k2k_assets.cli.main as cli; sys.stderr.write(cli.__file__); cli.main()"
    command = ["init", "orders.yaml", "--source", "localhost:9092", "--target", "localhost:9093"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(str(installed))
    assert "exactlyOnce: enabled" in (tmp_path / "orders.yaml").read_text()


class Installed:
    """An environment with the wheel and what it asks for.

    Args:
        root: Stands in for `/`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bin = root / "opt/k2k-0.1.0/bin"
        self.environment = plain_environment() | {"PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}"}
        self.environment["K2K_HOME"] = str(root / "home")

    def run(self, *command: str | Path, cwd: Path | None = None, more: Mapping[str, str] | None = None) -> str:
        """Runs a program, with more variables; returns what it said."""
        done = subprocess.run(
            command, cwd=cwd or self.root, env={**self.environment, **(more or {})}, capture_output=True, text=True,
            timeout=1500, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout[-3000:], done.stderr[-3000:])
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """By the commands of the page; then Dagster's web server too. The versions are those that are tested."""
    made = Installed(tmp_path_factory.mktemp("root"))
    (made.root / "opt").mkdir()
    versions = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    for line in commands(*INSTALLATION):
        made.run("bash", "-ec", below(made.root, line), cwd=wheel.parent, more=versions)
    made.run("pip", "install", "--quiet", f"{wheel}[ui]", more=versions)
    return made


def test_an_environment_of_the_wheel_has_all_that_it_needs_and_no_development_tool(installed: Installed) -> None:
    frozen = installed.run("pip", "freeze").splitlines()
    names = {line.split("==")[0].split(" @ ")[0].lower() for line in frozen}
    assert {"k2k-assets", "dagster", "pyspark", "starlette", "opentelemetry-sdk", "dagster-webserver"} <= names
    assert not names & set(OF_TESTS_ALONE)
    installed.run("pip", "check")
    where = installed.run("python", "-c", "import k2k_assets; print(k2k_assets.__file__)").strip()
    assert Path(where).is_relative_to(installed.root)


def test_its_commands_its_code_location_and_its_component_work(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    installed.run("k2k", "init", folder / "orders.yaml", "--source", "s:9092", "--target", "t:9093")
    assert "is valid" in installed.run("k2k", "validate", "-f", folder / "orders.yaml")
    for program in ("k2k", "k2k-tool", "k2k-offset-mapping"):
        assert "0.1.0" in installed.run(program, "--version")
    location = ("dagster", "definitions", "validate", "-m", "k2k_assets.definitions")
    assert "k2k_assets.definitions" in installed.run(*location, cwd=tmp_path, more={"K2K_PIPELINES": str(folder)})
    (tmp_path / "load.py").write_text(_LOADS_A_COMPONENT)
    shown = installed.run("python", "load.py", folder / "orders.yaml", cwd=tmp_path)
    assert '["orders", "commit_log"]' in shown


_LOADS_A_COMPONENT = """
import shutil, sys
from dagster.components.testing import create_defs_folder_sandbox

with create_defs_folder_sandbox() as sandbox:
    folder = sandbox.defs_folder_path / "orders"
    folder.mkdir()
    shutil.copy(sys.argv[1], folder / "pipeline.yaml")
    kind = "type: k2k_assets.K2KPipelineComponent"
    (folder / "defs.yaml").write_text(kind + "\\nattributes:\\n  pipeline: pipeline.yaml\\n")
    with sandbox.build_all_defs() as definitions:
        for key in definitions.resolve_asset_graph().get_all_asset_keys():
            print(key.to_string())
"""


@pytest.mark.spark
def test_its_sandbox_is_copied_between_and_stops(installed: Installed, tmp_path: Path) -> None:
    def program(*command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=tmp_path, env=installed.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    with program("k2k", "sandbox", "up") as sandbox:
        try:
            said = ""
            while "Ctrl-C stops" not in said:
                assert sandbox.stdout
                line = sandbox.stdout.readline()
                assert line, (said, sandbox.communicate()[1])
                said += line
            source, target = (line.split()[1] for line in said.splitlines() if line.startswith(("source ", "target ")))
            written = len(read_all(source, "demo.orders"))
            with program("k2k", "start", "-f", "sandbox.yaml") as copying:
                try:

                    def copied() -> bool:
                        assert copying.poll() is None, copying.communicate()[1]
                        return "demo.orders" in topics(target) and len(read_all(target, "demo.orders")) == written

                    wait_until(copied, 120, f"{written} records")
                    copying.send_signal(signal.SIGTERM)
                    assert copying.wait(60) == 0
                finally:
                    copying.kill()
            sandbox.send_signal(signal.SIGINT)
            assert sandbox.wait(30) == 0
        finally:
            sandbox.kill()
