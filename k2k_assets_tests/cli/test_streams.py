"""A command continues when the reader of its output ends."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest
from rich.live import Live

from k2k_assets.cli import logs
from k2k_assets.cli.signals import stop_on_signals
from k2k_assets.cli.streams import LastingConsole, error_console, tell


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """A pipe whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", buffering=1) as stream:
        yield stream


def test_a_console_without_a_reader_falls_silent(unread: TextIO) -> None:
    console = LastingConsole(file=unread, force_terminal=True)
    with Live(console=console, auto_refresh=False) as live:
        live.update("once", refresh=True)
        live.update("twice", refresh=True)
    console.print("more")
    assert console.quiet
    unread.write("what the exit flushes\n")
    unread.flush()


def test_commands_log_on_such_a_console(unread: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", unread)
    before = logging.getLogger("k2k").handlers
    try:
        logs.configure(error_console())
        logging.getLogger("k2k.cli").warning("nobody reads this")
        logging.getLogger("k2k.cli").warning("nor this")
    finally:
        logging.getLogger("k2k").handlers = before


def test_a_result_without_a_reader_ends_nothing(unread: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", unread)
    tell("a summary")
    tell("another")


@pytest.mark.parametrize("closed", [True, False])
def test_a_signal_is_heeded_where_nobody_reads_what_it_says(
    closed: bool, unread: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    monkeypatch.setattr(sys, "__stderr__", unread)
    monkeypatch.setattr(sys, "stderr", unread)
    if closed:
        unread.close()
    with stop_on_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        signal.raise_signal(signal.SIGTERM)
    assert left[0] == 130
