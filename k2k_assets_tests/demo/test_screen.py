"""Where output goes: ours to the screen, all other into the log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from k2k_assets.cli import demo as command
from k2k_assets.demo import demo
from k2k_assets.demo.screen import Screen, all_else_into


def test_only_what_is_meant_for_it_is_on_the_screen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    with all_else_into(log) as console:
        screen = Screen(console)
        os.write(2, b"noise of a library\n")
        subprocess.run([sys.executable, "-c", "print('noise of a child')"], check=True, timeout=30)
        with screen.step("working") as step:
            step.detail("not on a file")
            step.done("worked [on] it")
    os.write(1, b"after it\n")
    said = capfd.readouterr()
    assert said.out.splitlines() == ["   0.0 s  worked [on] it", "after it"]
    assert said.err == ""
    assert log.read_text().splitlines() == ["noise of a library", "noise of a child"]


def test_a_demo_that_does_not_end_well_fails_and_names_its_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def badly(screen: Screen) -> bool:
        os.write(2, b"why it failed\n")
        return False

    monkeypatch.setattr(demo, "run_demo", badly)
    result = CliRunner().invoke(command.demo, standalone_mode=False)
    assert "did not end well" in str(result.exception)
    log = Path(result.stderr.strip().rpartition(" ")[2])
    assert "why it failed" in log.read_text()
    log.unlink()
