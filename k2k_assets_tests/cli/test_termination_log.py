"""The failure that ended the program, in the file that an orchestrator reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.cli import termination_log
from k2k_assets.cli.termination_log import failure_written_to
from k2k_assets.core.errors import Refused


def fail(path: Path, message: str = "no such topic", enabled: bool = True) -> None:
    with pytest.raises(Refused), failure_written_to(path, enabled):
        raise Refused(message)


def test_message_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("of the run before")
    fail(path)
    assert path.read_text() == "no such topic"


def test_nothing_is_written_when_disabled_or_without_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fail(path, enabled=False)
    with failure_written_to(path, True):
        pass
    assert not path.exists()


def test_default_is_only_written_where_it_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "termination-log"
    monkeypatch.setattr(termination_log, "DEFAULT", path)
    fail(path)
    assert not path.exists()
    path.touch()
    fail(path)
    assert path.read_text() == "no such topic"


def test_long_message_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fail(path, "x" * 10_000)
    assert path.stat().st_size == 4096


def test_unwritable_file_hides_no_failure(tmp_path: Path) -> None:
    fail(tmp_path / "no" / "such" / "folder")
