"""Our output goes to the screen, all other output to the log."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner

from k2k_assets.cli.commands import demo as command
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
    assert re.fullmatch(r" +\d+\.\d s  worked \[on\] it\nafter it\n", said.out)
    assert said.err == ""
    assert log.read_text().splitlines() == ["noise of a library", "noise of a child"]


def test_noise_does_not_reach_a_terminal_either(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from k2k_assets.demo.screen import Screen, all_else_into
with all_else_into(Path(sys.argv[1])) as console:
    assert console.is_terminal
    with Screen(console).step("working") as step:
        print("noise of a library", file=sys.stderr)
        step.detail("on it " * 100)
        step.done("worked")
"""
    log = tmp_path / "log"
    controller, terminal = pty.openpty()
    with os.fdopen(controller, "rb", buffering=0) as screen:
        child = subprocess.Popen([sys.executable, "-c", script, str(log)], stdout=terminal, stderr=terminal)
        os.close(terminal)
        said = _read_all(screen)
        assert child.wait(30) == 0, said
    assert "working" in said
    assert "worked" in said
    assert "noise" not in said
    assert log.read_text() == "noise of a library\n"


def _read_all(screen: IO[bytes]) -> str:
    said = b""
    with suppress(OSError):  # Linux raises it when no process has the terminal open
        while more := screen.read(65536):
            said += more
    return said.decode()


def test_a_demo_that_does_not_end_well_fails_and_names_its_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def badly(screen: Screen, registries: bool) -> bool:
        os.write(2, b"why it failed\n")
        return False

    monkeypatch.setattr(demo, "run_demo", badly)
    result = CliRunner().invoke(command.demo, standalone_mode=False)
    assert "the demo failed" in str(result.exception)
    log = Path(result.stderr.strip().rpartition(" ")[2])
    assert "why it failed" in log.read_text()
    log.unlink()
