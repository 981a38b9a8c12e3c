"""Modules of users, as they are loaded: what any import allows them is allowed here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.functions.module_source import code_of
from k2k_assets.functions.user_code import load_function
from k2k_assets_tests.support.brokers.kafka import unique

WITH_A_DATACLASS = """
from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Limit:
    most: int = 7


def most():
    return Limit().most
"""


@pytest.fixture
def name() -> str:
    return unique("of_a_user").replace("-", "_")


def test_a_module_may_have_dataclasses(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(WITH_A_DATACLASS)
    assert load_function(f"{name}:most", [str(tmp_path)])() == 7


def test_a_module_that_fails_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    path, folders = tmp_path / f"{name}.py", [str(tmp_path)]
    path.write_text("raise SystemExit(3)")
    with pytest.raises(Refused, match=f"the module {name} cannot be imported: SystemExit: 3"):
        load_function(f"{name}:most", folders)
    assert name not in sys.modules
    path.write_text(WITH_A_DATACLASS)
    known = code_of(f"{name}:most", folders)
    assert load_function(f"{name}:most", folders, known)() == 7
    path.write_text("1 / 0")
    with pytest.raises(Refused, match="ZeroDivisionError"):
        load_function(f"{name}:most", folders)
    assert sys.modules[name].most() == 7
    with pytest.raises(Refused, match=f"the code of {name}:most has changed since the copy began: start again"):
        load_function(f"{name}:most", folders, known)
    path.write_text(WITH_A_DATACLASS)
    assert code_of(f"{name}:most", folders) == known
