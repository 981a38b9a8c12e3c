"""`k2k-tool` in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.cli.tool import run


def run_tool(capsys: pytest.CaptureFixture[str], file: Path, command: str, *arguments: str) -> tuple[int, str]:
    """Runs a command on a pipeline file: the exit code, and all that it said.

    Args:
        capsys: Of the test.
        file: The pipeline file.
        command: Such as `pause`.
        arguments: What follows the file.
    """
    capsys.readouterr()
    code = run([command, "-f", str(file), *arguments])
    said = capsys.readouterr()
    return code, said.out + said.err
