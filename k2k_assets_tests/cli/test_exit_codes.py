"""The exit codes: the tables in help and docs, and the codes of errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from k2k_assets.cli import main, offset_mapping, tool
from k2k_assets.cli.exit_codes import DIFFERS, EXIT_CODES
from k2k_assets.cli.main import run
from k2k_assets.cli.signals import LEFT_AT_ONCE
from k2k_assets.core import errors

DOCS = Path(__file__).parents[2] / "docs" / "exit-codes.md"


def test_docs_and_help_say_the_same() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", DOCS.read_text(), re.MULTILINE)
    assert {int(code): text.replace("`", "") for code, text in rows} == EXIT_CODES


def test_every_error_has_a_documented_code() -> None:
    kinds: list[type[errors.K2KError]] = [errors.K2KError, *errors.K2KError.__subclasses__()]
    assert {kind.exit_code for kind in kinds} | {0, DIFFERS, LEFT_AT_ONCE} == set(EXIT_CODES)


def test_the_help_of_start_ends_with_the_codes_that_can_occur(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["start", "--help"]) == 0
    listed = re.findall(r"^ +(\d+)  (.+)$", capsys.readouterr().out.partition("Exit codes:\n")[2], re.MULTILINE)
    assert listed == [(str(code), meaning) for code, meaning in EXIT_CODES.items() if code != DIFFERS]


@pytest.mark.parametrize(
    ("program", "command", "codes"),
    [
        (main.run, ["validate"], [0, 1, 2, 3, 130]),
        (main.run, ["status"], [0, 1, 2, 3, 130]),
        (main.run, ["init"], [0, 1, 2, 3, 130]),
        (main.run, ["convert"], [0, 1, 2, 3, 130]),
        (main.run, ["acls"], [0, 1, 2, 130]),
        (main.run, ["topics", "plan"], [0, 1, 2, 3, 7, 130]),
        (main.run, ["topics", "apply"], [0, 1, 2, 3, 130]),
        (tool.run, ["describe"], [0, 1, 2, 3, 130]),
        (tool.run, ["translate"], [0, 1, 2, 3, 130]),
        (tool.run, ["set"], [0, 1, 2, 3, 4, 130]),
        (tool.run, ["reset"], [0, 1, 2, 3, 4, 130]),
        (offset_mapping.run, ["start"], [0, 1, 2, 3, 4, 130]),
        (offset_mapping.run, ["failback"], [0, 1, 2, 3, 130]),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_the_help_of_others_has_the_codes_that_can_occur(
    program: Callable[[list[str]], int], command: list[str], codes: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert program([*command, "--help"]) == 0
    listed = capsys.readouterr().out.partition("Exit codes:\n")[2]
    assert [int(code) for code in re.findall(r"^ +(\d+)  ", listed, re.MULTILINE)] == codes
    assert "--once" not in listed
