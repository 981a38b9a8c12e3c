"""`k2k-tool server`: what it refuses to start with. What it answers: `k2k_assets_tests/server/`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from k2k_assets.cli.tool_commands import server
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.tool import run_tool


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_pipeline(tmp_path, "s:1", "t:1", ["orders"])


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--dir", "nowhere"], 2, "there is no folder nowhere"),
        (["--token-file", "nowhere"], 2, "nowhere cannot be read"),
        (["--host", "0.0.0.0", "-p", "0"], 3, "so it needs a token"),
        (["--host", "no.such.host.invalid", "-p", "0"], 3, "cannot listen at no.such.host.invalid:0"),
    ],
)
def test_what_it_cannot_start_with_is_said(
    arguments: list[str], code: int, told: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, said = run_tool(capsys, file, "server", *arguments)
    assert (found, told in said) == (code, True), said


def test_a_port_that_is_taken_is_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = run_tool(capsys, file, "server", "-p", str(taken.getsockname()[1]))
    assert (code, "Address already in use. -p names another port" in said) == (3, True), said


def test_an_installation_without_the_libraries_is_told_how_to_get_them(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _: None)
    code, said = run_tool(capsys, file, "server")
    assert (code, "pip install 'k2k-assets[server]'" in said) == (3, True)
