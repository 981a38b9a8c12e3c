"""The wheel of the project, and environments in which it alone is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[3]

OF_TESTS_ALONE = ("pytest", "mypy", "ruff", "hypothesis", "moto", "playwright", "import-linter", "dagster-dg-cli")
"""Packages that whoever runs the product does not need."""


def plain_environment() -> dict[str, str]:
    """Nothing of the environment of the tests but where things are found."""
    kept = ("PATH", "HOME", "JAVA_HOME", "K2K_CACHE", "LANG", "TMPDIR")
    passed = {name: value for name, value in os.environ.items() if name in kept or name.startswith(("PIP_", "SSL_"))}
    return {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")} | passed


def built_wheel(folder: Path) -> Path:
    """Made by `make dist` in a copy of the tree: of the sdist, and checked like that.

    Args:
        folder: An empty one.
    """
    copy = folder / "k2k"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "k2k_assets", copy / "k2k_assets", ignore=shutil.ignore_patterns("__pycache__"))
    made = subprocess.run(
        ["make", "dist", f"PYTHON={sys.executable}"], cwd=copy, capture_output=True, text=True, timeout=500, check=False
    )
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
    assert sorted(path.name.split("-")[0] for path in (copy / "dist").iterdir()) == ["k2k_assets"] * 2
    (path,) = (copy / "dist").glob("*.whl")
    return path


def install(wheel: Path, folder: Path) -> Path:
    """Installs a wheel in an empty environment; returns the folder of its programs.

    The libraries that it needs are those of this environment, which are not fetched again: their folder is on the path
    of the new one, without the project.

    Args:
        wheel: The wheel.
        folder: For the environment.
    """
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command = [str(python), "-I", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    # `-I`: the clone's own metadata would count as installed.
    subprocess.run(command, cwd=folder, check=True, timeout=500)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin"
