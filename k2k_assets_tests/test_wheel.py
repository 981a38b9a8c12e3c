"""The wheel, installed without a clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by `make dist` in a copy of the tree: of the sdist, and checked like that."""
    copy = tmp_path_factory.mktemp("tree") / "k2k"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "k2k_assets", copy / "k2k_assets", ignore=shutil.ignore_patterns("__pycache__"))
    made = subprocess.run(
        ["make", "dist", f"PYTHON={sys.executable}"], cwd=copy, capture_output=True, text=True, timeout=300, check=False
    )
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
    assert sorted(path.name.split("-")[0] for path in (copy / "dist").iterdir()) == ["k2k_assets"] * 2
    (path,) = (copy / "dist").glob("*.whl")
    return path


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
