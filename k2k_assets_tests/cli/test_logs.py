"""What of all that is logged is printed, and how often."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from rich.console import Console

from k2k_assets.cli import logs


@pytest.fixture
def console() -> Iterator[Console]:
    root, ours = logging.getLogger(), logging.getLogger("k2k")
    before = list(root.handlers), list(ours.handlers), ours.level, ours.propagate
    root.handlers = []  # as in a program: pytest's own would hide that nobody else has one
    yield Console(width=200)
    root.handlers, ours.handlers = before[0], before[1]
    ours.setLevel(before[2])
    ours.propagate = before[3]


def test_a_library_that_logs_on_the_root_logger_does_not_double_our_lines(
    console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(console)
    logs.configure(console)  # as for a second command in one process
    logging.info("Exception while sending command.")  # py4j does this: it would configure the root logger
    try:
        raise OSError("Java is gone")
    except OSError:
        logging.exception("Exception while sending command.")
    logging.getLogger("k2k.replication").warning("the Spark job failed and is run again")
    logging.getLogger("some.library").warning("deprecated")
    logging.getLogger("some.library").info("hello")
    shown = capsys.readouterr()
    lines = (shown.out + shown.err).splitlines()
    assert [line.split(maxsplit=2)[1:] for line in lines] == [
        ["WARNING", "the Spark job failed and is run again"],
        ["WARNING", "deprecated"],
    ]
