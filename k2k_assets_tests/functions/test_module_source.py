"""The source of a user's module is found as Python's import finds it, and nothing of it is executed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.functions.module_source import code_of, find_source, function_fault
from k2k_assets_tests.support.brokers.kafka import unique

DEADLY = "import os\nos._exit(3)\n"


@pytest.fixture
def name() -> str:
    return unique("of_a_user").replace("-", "_")


def test_nothing_is_executed_neither_a_module_nor_its_packages(tmp_path: Path, name: str) -> None:
    inner = tmp_path / name / "inner"
    inner.mkdir(parents=True)
    for file in (tmp_path / name / "__init__.py", inner / "__init__.py", inner / "rules.py"):
        file.write_text(DEADLY + "def f(records): return records\n")
    folders = [str(tmp_path)]
    before = set(sys.modules), list(sys.path)
    for module in (name, f"{name}.inner", f"{name}.inner.rules"):
        assert function_fault(f"{module}:f", folders) is None
        assert find_source(module, folders).text.startswith(DEADLY.encode())
    assert (set(sys.modules), sys.path) == before


def test_a_folder_without_init_is_a_package_too(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "rules.py").write_text("def f(records): return records\n")
    assert find_source(f"{name}.rules", [str(tmp_path)]).path == str(tmp_path / name / "rules.py")
    with pytest.raises(Refused, match=f"the module {name} has no source"):
        find_source(name, [str(tmp_path)])


@pytest.mark.parametrize("module", ["json", "json.decoder", "k2k_assets.functions.child", "pyarrow.compute"])
def test_it_is_what_an_import_finds_and_the_folders_hide_nothing(tmp_path: Path, module: str) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit")
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert find_source(module, [str(tmp_path)]).path == spec.origin


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("from elsewhere import f", None),
        ("import elsewhere as f", None),
        ("if True:\n    f = print", None),
        ("class f: pass", None),
        ("from elsewhere import *", None),
        ("globals()['f'] = print", None),
        ("import sys\nsetattr(sys.modules[__name__], 'f', print)", None),
        ("def __getattr__(name): return print", None),
        ("def g(): pass", "has no function 'f'"),
        ("def f(:", "cannot be imported: SyntaxError"),
        ("return 7\ndef f(): pass", "cannot be imported: SyntaxError: 'return' outside function"),
        ("f = '\0'", "cannot be imported: "),
    ],
)
def test_what_the_text_of_a_module_says_of_a_function(tmp_path: Path, name: str, text: str, fault: str | None) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    found = function_fault(f"{name}:f", [str(tmp_path)])
    assert (found is None) if fault is None else found and found.startswith(f"the module {name} {fault}")


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("NAME", "ModuleNotFoundError: No module named 'NAME'"),
        ("NAME.inner", "ModuleNotFoundError: No module named 'NAME'"),
        ("json.NAME", "ModuleNotFoundError: No module named 'json.NAME'"),
        ("json.decoder.NAME", "ModuleNotFoundError: No module named 'json.decoder.NAME'; 'json.decoder' is not a"),
        ("", "ModuleNotFoundError: No module named ''"),
        (".NAME", "ModuleNotFoundError: No module named ''"),
    ],
)
def test_a_module_that_is_not_there_is_named(tmp_path: Path, name: str, module: str, why: str) -> None:
    with pytest.raises(Refused) as refused:
        code_of(f"{module.replace('NAME', name)}:f", [str(tmp_path)])
    assert why.replace("NAME", name) in str(refused.value)


def test_other_code_has_another_digest_and_the_same_has_the_same(tmp_path: Path, name: str) -> None:
    path, folders = tmp_path / f"{name}.py", [str(tmp_path)]
    path.write_text("def f(records): return records\n")
    known = code_of(f"{name}:f", folders)
    path.write_text("def f(records): return None\n")
    assert code_of(f"{name}:f", folders) != known
    path.write_text("def f(records): return records\n")
    assert code_of(f"{name}:f", folders) == known
