"""The main command: quick help, one message for an error, documented exit codes."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from k2k_assets.cli import main
from k2k_assets.core.errors import ClusterUnreachable, K2KError, PipelineFileError, Superseded


def _command(monkeypatch: pytest.MonkeyPatch, action: object) -> None:
    @click.command()
    def fake() -> object:
        if isinstance(action, BaseException):
            raise action
        return action

    monkeypatch.setattr(main.cli, "get_command", lambda ctx, name: fake)


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (None, 0),
        (6, 6),
        (K2KError("why"), 1),
        (PipelineFileError("why"), 2),
        (click.UsageError("why"), 2),
        (ClusterUnreachable("why"), 3),
        (Superseded("why"), 4),
        (KeyboardInterrupt(), 130),
        (click.exceptions.Exit(9), 9),
    ],
)
def test_exit_codes(
    action: object, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _command(monkeypatch, action)
    assert main.run(["fake"]) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    if isinstance(action, K2KError | click.ClickException):
        assert "Error: why" in said.err
        assert said.out == ""


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["strat"]) == 2
    assert "No such command 'strat'" in capsys.readouterr().err


def test_an_argument_with_a_nul_character_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["validate", "-f", "a\0b"]) == 2
    assert "NUL character" in capsys.readouterr().err


def test_help_names_every_command_and_imports_none() -> None:
    script = (
        "import sys; from k2k_assets.cli.main import run; code = run(['--help'])\n"
        "assert code == 0\n"
        "print([name for name in ('pyspark', 'confluent_kafka', 'dagster', 'pydantic') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.endswith("[]\n")
    for name, entry in main.COMMANDS.items():
        assert f"{name} " in said
        assert entry.help in said
