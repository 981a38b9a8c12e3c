"""`k2k migrate` and `k2k schema`: their standard output can be redirected to a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k2k_assets.cli.main import run
from k2k_assets.pipeline.json_schema import json_schema
from k2k_assets_tests.pipeline.files import TUTORIAL
from k2k_assets_tests.pipeline.parsing.test_old_spellings import OF_0_1


def test_the_new_file_on_standard_output_and_the_changes_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(OF_0_1)
    assert run(["migrate", "-f", str(old)]) == 0
    said = capsys.readouterr()
    new.write_text(said.out)
    assert f"{old}:16:5: coordination.kafka.commit: an older spelling; write coordination.commit" in said.err
    assert "it names the progress: write 'demo.progress'" in said.err
    assert said.err.endswith(f"{old}: 16 old spellings rewritten\n")
    assert run(["validate", "-f", str(new)]) == 0
    said = capsys.readouterr()
    assert "group demo.progress in demo-offsets" in said.out
    assert "warning" not in said.out


def test_a_file_of_today_comes_back_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(TUTORIAL)
    assert run(["migrate", "-f", str(file)]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (TUTORIAL, f"{file}: nothing to change\n")


def test_what_is_no_pipeline_is_an_error_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("a: [\n")
    assert run(["migrate", "-f", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{file}:2:1: not valid YAML" in said.err
    assert run(["migrate", "-f", str(tmp_path / "absent.yaml")]) == 2
    assert "absent.yaml: cannot be read" in capsys.readouterr().err


def test_a_password_on_a_line_that_cannot_be_rewritten_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.yaml"
    old = 'connection: { servers: a:1 }\n    consumer:\n      sasl.password: "hunter2"\t# from vault\n'
    file.write_text(f"source:\n  kafka:\n    {old}")
    assert run(["migrate", "-f", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{file}:5:31: `k2k migrate` cannot rewrite this line" in said.err
    assert "hunter2" not in said.err
    assert "Traceback" not in said.err


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def test_validate_shows_old_spellings_and_the_license(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(OF_0_1 + "license: { acceptEula: true, token: x }\n")
    assert run(["validate", "-f", str(file)]) == 0
    said = capsys.readouterr().out
    assert said.count("license") == 1
    assert "note       no effect: license: everything is free here" in said
    assert "warning    " + f"{file}:5:3: features.offsetCommitOptimizePartition: an older spelling" in said
