"""`k2k init`: its questions, its file, and the files that it does not touch."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from k2k_assets.cli.main import run
from k2k_assets.pipeline import load_pipeline

ADDRESSES = ("--source", "a:9092", "--target", "b:9092,c:9092")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_a_pipeline_that_is_valid_and_says_what_to_do_next(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", *ADDRESSES]) == 0
    said = capsys.readouterr().out
    assert "k2k validate -f pipeline.yaml --connect" in said
    assert "k2k start -f pipeline.yaml" in said
    pipeline = load_pipeline([folder / "pipeline.yaml"])
    features = pipeline.features
    assert features.exactly_once
    assert features.header_replication
    assert features.offset_mapping
    assert features.auto_create_topics
    assert features.auto_create_control_topics
    assert (pipeline.name, pipeline.group, pipeline.warnings) == ("pipeline", "k2k.pipeline", ())
    assert pipeline.selection.matches("anything")
    assert pipeline.client_properties("source", "admin")["bootstrap.servers"] == "a:9092"
    assert pipeline.client_properties("target", "admin")["bootstrap.servers"] == "b:9092,c:9092"
    assert run(["validate", "-f", "pipeline.yaml"]) == 0


def test_what_is_given_may_hold_anything(folder: Path) -> None:
    more = ("--topics", r'orders\.("eu"|$\{us}|\d+)', "--name", 'it\'s "mine" # ${not a variable}')
    assert run(["init", "my pipelines/a b.yaml", *ADDRESSES, *more]) == 0
    pipeline = load_pipeline([folder / "my pipelines" / "a b.yaml"])
    assert pipeline.name == 'it\'s "mine" # ${not a variable}'
    assert pipeline.selection.pattern == r'orders\.("eu"|$\{us}|\d+)'


@pytest.mark.parametrize("more", [("--name", "a\udcff"), ("--topics", "a\udcff")])
def test_what_is_no_text_is_refused(more: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", *ADDRESSES, *more]) == 3
    assert "would hold bytes that are no UTF-8 text" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_a_file_of_the_users_stays_without_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pipeline.yaml").write_text("mine")
    assert run(["init", *ADDRESSES]) == 2
    assert "pipeline.yaml exists" in capsys.readouterr().err
    assert (folder / "pipeline.yaml").read_text() == "mine"
    assert run(["init", *ADDRESSES, "--force"]) == 0
    assert load_pipeline([folder / "pipeline.yaml"]).features.exactly_once


def test_nobody_is_asked_where_nobody_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert run(["init", "--source", "a:9092"]) == 2
    assert "--target HOST:PORT" in capsys.readouterr().err
    assert not (folder / "pipeline.yaml").exists()


def test_addresses_are_asked_for_on_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO("a:1\nb:2\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert run(["init"]) == 0
    pipeline = load_pipeline([folder / "pipeline.yaml"])
    assert [pipeline.client_properties(role, "admin")["bootstrap.servers"] for role in ("source", "target")] == [
        "a:1",
        "b:2",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--source", "a", "--target", "b:1"), "'a' is not an address: expected HOST:PORT"),
        (("--source", "a:1", "--target", "b:1,"), "'b:1,' is not an address"),
        (("--source", "a:1", "--target", "a:1"), "a cluster cannot be copied to itself"),
        ((*ADDRESSES, "--topics", "("), "regular expression"),
    ],
)
def test_what_cannot_be_used_is_told_and_nothing_is_written(
    arguments: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", *arguments]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert "Traceback" not in errors
    assert list(folder.iterdir()) == []
