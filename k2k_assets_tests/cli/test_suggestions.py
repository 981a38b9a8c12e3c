"""Commands in messages are ready to copy: they name the files of this call."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from k2k_assets.cli.guarantee import guarantee
from k2k_assets.cli.options import defaults_files, pipeline_files
from k2k_assets.cli.program import Program
from k2k_assets.cli.suggestions import with_files
from k2k_assets.core.errors import Refused
from k2k_assets.core.words import ACLS_HINT
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@click.command()
@pipeline_files
@defaults_files
def refused(files: tuple[Path, ...], defaults: tuple[Path, ...]) -> None:
    raise Refused(f"{len(files)}, {len(defaults)}: {ACLS_HINT}")


def test_an_error_names_all_files_so_that_every_program_takes_them_for_one_pipeline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert Program(refused, "k2k").run(["-f", "my orders.yaml", "-f", "a.yaml,b.yaml", "-d", "all.yaml"]) == 3
    files = "-d all.yaml -f 'my orders.yaml,a.yaml,b.yaml'"
    assert capsys.readouterr().err == f"Error: 3, 1: {ACLS_HINT.replace('-f FILE', files)}\n"
    assert Program(refused, "k2k").run(["--file", "c.yaml"]) == 3
    assert "k2k acls -f c.yaml" in capsys.readouterr().err


def test_without_files_a_message_stays(capsys: pytest.CaptureFixture[str]) -> None:
    assert Program(refused, "k2k").run([]) == 2
    assert with_files("k2k acls -f FILE") == "k2k acls -f FILE"


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ({"exactlyOnce": "enabled", "headerReplication": "enabled"}, "exactly once, with headers"),
        (
            {"exactlyOnce": "enabled"},
            "exactly once, headers are dropped; for more, features.headerReplication: enabled",
        ),
        (
            {},
            "at least once (records may come twice after a fault), headers are dropped; for more, "
            "features.exactlyOnce: enabled and features.headerReplication: enabled",
        ),
        (
            {"headerReplication": "enabled"},
            "at least once (records may come twice after a fault), with headers; for more, "
            "features.exactlyOnce: enabled",
        ),
    ],
)
def test_the_guarantee_is_one_line_that_says_how_to_get_more(
    features: dict[str, str], said: str, tmp_path: Path
) -> None:
    assert guarantee(make_pipeline(tmp_path, "s:1", "t:1", ".*", features=features)) == said
