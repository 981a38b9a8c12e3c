"""The wheel, installed without a clone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from k2k_assets_tests.support.services.wheels import ROOT, built_wheel

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
