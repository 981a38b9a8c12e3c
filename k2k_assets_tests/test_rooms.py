"""The rooms that `make lint` keeps apart are those that the docs show, in the same order. Walks lead down."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ROOT / "k2k_assets"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
WALKS = [
    re.findall(r"^\d+\. `([\w/.]+)` `(\w+)`: ", walk, re.MULTILINE)
    for walk in re.split(r"\n\n(?=\w[^\n]*:\n\n1\. )", ARCHITECTURE.partition("## Three walks\n")[2])[1:]
]


def test_the_docs_show_the_rooms_that_are_enforced() -> None:
    shown = re.findall(
        r"^  (\w+)(?:/|\.py) ", ARCHITECTURE.partition("```text\nk2k_assets/\n")[2].partition("```")[0], re.MULTILINE
    )

    assert shown == list(reversed(_rooms()))


def _contracts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    return found


def _rooms() -> list[str]:
    """From the top of the layers down."""
    layers: list[str] = next(contract["layers"] for contract in _contracts() if contract["type"] == "layers")
    return layers


# Each room that may import a framework or client, so that a new room has to choose.
@pytest.mark.parametrize(
    ("forbidden", "may"),
    [
        ("dagster", {"definitions", "defs", "orchestration"}),
        ("pyspark", {"orchestration", "spark", "tables", "translation", "verification"}),
        ("confluent_kafka", {"demo", "kafka", "registry", "sandbox", "transport"}),
    ],
)
def test_each_room_is_forbidden_a_framework_or_named_here(forbidden: str, may: set[str]) -> None:
    closed = [
        {module.split(".")[1] for module in contract["source_modules"]}
        for contract in _contracts()
        if contract["type"] == "forbidden" and forbidden in contract["forbidden_modules"]
    ]
    assert set(_rooms()) - max(closed, key=len) == may


@pytest.mark.processes
def test_lint_fails_on_circles_and_on_imports_against_the_order(tmp_path: Path) -> None:
    shutil.copytree(PRODUCT, tmp_path / "k2k_assets", ignore=lambda _, names: {n for n in names if n == "__pycache__"})
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for file, imported in (
        ("core/deadline.py", "k2k_assets.replication.plan"),  # against the order
        ("mapping/algebra/fold.py", "k2k_assets.mapping.live.live"),  # a circle of folders
        ("groups/decide.py", "k2k_assets.groups.poller"),  # a circle of files
    ):
        with (tmp_path / "k2k_assets" / file).open("a") as module:
            module.write(f"\nimport {imported}\n")
    (tmp_path / "k2k_assets" / "unlisted").mkdir()
    (tmp_path / "k2k_assets" / "unlisted" / "__init__.py").touch()
    lint = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]

    found = subprocess.run(
        lint, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=500
    )

    assert found.returncode == 1
    assert "k2k_assets.core is not allowed to import k2k_assets.replication" in found.stdout
    assert "The following modules are not listed as layers:\n\n- k2k_assets.unlisted" in found.stdout
    assert "No cycles are allowed in k2k_assets.mapping." in found.stdout
    assert "No cycles are allowed in k2k_assets.groups." in found.stdout


def test_there_are_three_walks_of_at_most_twelve_stations() -> None:
    assert len(WALKS) == 3
    assert all(8 <= len(walk) <= 12 for walk in WALKS)


@pytest.mark.parametrize("walk", WALKS, ids=["a record", "a pipeline file", "a position"])
def test_a_walk_names_what_is_there_and_never_goes_back_up(walk: list[tuple[str, str]]) -> None:
    for file, name in walk:
        tree = ast.parse((ROOT / "k2k_assets" / file).read_text())
        defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        assert name in defined, f"{file} has no {name}"
        passed = {_module(above) for above, _ in walk[: walk.index((file, name))]}
        assert not passed & {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    rooms = _rooms()
    depths = [rooms.index(file.partition("/")[0]) for file, _ in walk]
    assert depths == sorted(depths)


def _module(file: str) -> str:
    return "k2k_assets." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_what_newcomers_look_for_is_where_the_docs_say() -> None:
    table = ARCHITECTURE.partition("## Where is what\n")[2].partition("\n## ")[0]
    files = re.findall(r"`(\w[\w/]*\.py)`", table)
    assert len(files) >= 20
    assert [file for file in files if not (PRODUCT / file).exists()] == []


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(PRODUCT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PRODUCT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
