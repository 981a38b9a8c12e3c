"""The exit codes: one table in the help, one in the docs, and the errors that carry them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from k2k_assets.cli.exit_codes import EXIT_CODES
from k2k_assets.cli.main import run
from k2k_assets.cli.signals import LEFT_AT_ONCE
from k2k_assets.core import errors

DOCS = Path(__file__).parents[2] / "docs" / "exit-codes.md"


def test_docs_and_help_say_the_same() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", DOCS.read_text(), re.MULTILINE)
    assert {int(code): text.replace("`", "") for code, text in rows} == EXIT_CODES


def test_every_error_has_a_documented_code() -> None:
    kinds: list[type[errors.K2KError]] = [errors.K2KError, *errors.K2KError.__subclasses__()]
    assert {kind.exit_code for kind in kinds} | {0, LEFT_AT_ONCE} == set(EXIT_CODES)


@pytest.mark.parametrize("command", ["start", "validate"])
def test_help_ends_with_the_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{code:>3}  {meaning}" in shown for code, meaning in EXIT_CODES.items())
