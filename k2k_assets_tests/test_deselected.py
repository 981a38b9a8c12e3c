"""Test files that are not imported, because no test in them is selected."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets_tests.support.suite.deselected import is_deselected

_CHECK = "not integration and not slow"
_ONE, _LIST = "pytestmark = pytest.mark.slow\n", "pytestmark = [pytest.mark.timeout(9), pytest.mark.slow]\n"
_LINES = "pytestmark = [\n    pytest.mark.integration,\n    pytest.mark.own_clusters,\n]\n"
_TEST = "\n\ndef test_it() -> None: ...\n"
_ONE_TEST = "\n\n@pytest.mark.slow\ndef test_it() -> None: ...\n"


@pytest.mark.parametrize("marks", [_ONE, _LIST, _LINES])
def test_a_file_whose_marks_are_left_out_is_deselected(tmp_path: Path, marks: str) -> None:
    assert is_deselected(_file(tmp_path, marks + _TEST), _CHECK)
    assert not is_deselected(_file(tmp_path, marks + _TEST), "not storm")


@pytest.mark.parametrize("text", [_TEST, _ONE_TEST, "pytestmark = pytest.mark.timeout(9)\n" + _ONE_TEST])
def test_a_file_with_a_test_that_may_be_selected_is_kept(tmp_path: Path, text: str) -> None:
    assert not is_deselected(_file(tmp_path, text), _CHECK)


@pytest.mark.parametrize("expression", ["", "slow", "not integration or slow", "not (integration and slow)"])
def test_other_expressions_deselect_no_file(tmp_path: Path, expression: str) -> None:
    assert not is_deselected(_file(tmp_path, _LINES + _TEST), expression)


def test_a_folder_is_deselected_when_all_its_files_are(tmp_path: Path) -> None:
    assert not is_deselected(tmp_path, _CHECK)
    (tmp_path / "below").mkdir()
    _file(tmp_path / "below", _ONE + _TEST)
    assert is_deselected(tmp_path, _CHECK)
    _file(tmp_path, _TEST)
    assert not is_deselected(tmp_path, _CHECK)


def _file(folder: Path, text: str) -> Path:
    path = folder / f"test_{len([*folder.iterdir()])}.py"
    path.write_text(text)
    return path
