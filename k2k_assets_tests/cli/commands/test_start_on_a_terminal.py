"""`k2k start` on a real terminal: its display, Ctrl-C, and the state of the terminal afterwards."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.copies.processes import K2K

pytestmark = [pytest.mark.integration, pytest.mark.spark]

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_MOVES = re.compile(r"(\x1b\[[0-9]*[A-K]|\r|\n)+")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CTRL_C = b"\x03"
# Makes standard input the terminal of a new session, as a login does: Ctrl-C signals all processes in it.
_LOG_IN = "import os, sys; os.login_tty(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
# So many transactions, of ten records, that some are seen on the way.
_RECORDS = 2000


class Row(NamedTuple):
    """What was shown of a topic; `state` with the time that is left before it."""

    position: int
    end: int
    copied: int
    lag: int
    state: str


class Terminal:
    """A terminal with a `k2k start` on it.

    Args:
        arguments: Of `start`.
    """

    def __init__(self, *arguments: str | Path) -> None:
        self._ours, self._theirs = pty.openpty()
        termios.tcsetwinsize(self._theirs, (40, 160))
        self._settings = termios.tcgetattr(self._theirs)
        self._shown = bytearray()
        command = [sys.executable, "-c", _LOG_IN, *K2K[1:], "start", *map(str, arguments)]
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**environment, "TERM": "xterm-256color"},
        )
        self._reader = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self._shown += os.read(self._ours, 65536)
            except OSError:  # no process has it open any more
                return

    @property
    def raw(self) -> str:
        """All that came, with the control sequences."""
        return self._shown.decode(errors="replace")

    @property
    def text(self) -> str:
        """All that came, also what was drawn over since, line by line."""
        return _CONTROL.sub("", _MOVES.sub("\n", self.raw))

    def rows(self, topic: str) -> list[Row]:
        """A topic's row, each time that it was drawn."""
        found = re.findall(rf"^{topic}((?: +[\d,]+){{4}}) +[\d,]+  (.*)$", self.text, re.MULTILINE)
        rows = []
        for numbers, rest in found:
            position, end, copied, lag = (int(number.replace(",", "")) for number in numbers.split())
            rows.append(Row(position, end, copied, lag, rest.strip()))
        return rows

    def type(self, keys: bytes) -> None:
        """Presses keys."""
        os.write(self._ours, keys)

    def has_its_settings(self) -> bool:
        """Whether echo, line editing and so on are as they were before."""
        return termios.tcgetattr(self._theirs) == self._settings

    def close(self) -> None:
        """Reads what there still is; lets the process not live on."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._theirs)
        self._reader.join(30)
        os.close(self._ours)


@contextmanager
def on_a_terminal(*arguments: str | Path) -> Iterator[Terminal]:
    terminal = Terminal(*arguments)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.mark.slow
def test_it_shows_how_far_it_is_and_ctrl_c_ends_it_with_0(tmp_path: Path, clusters: KafkaSandbox) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = kafka.create_topic(source, kafka.unique("shown"))
    kafka.produce(source, topic, [b"%d" % i for i in range(_RECORDS)])
    pipeline = make_pipeline(
        tmp_path,
        source,
        target,
        [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        coordination=slow_commits(),
    )
    (path,) = tmp_path.glob("*.yaml")

    with on_a_terminal("-f", path) as terminal:

        def await_row(count: int) -> None:
            def drawn() -> bool:
                assert terminal.process.poll() is None, terminal.text
                return Row(count, count, count, 0, "caught up") in terminal.rows(topic)

            wait_until(drawn, 300, f"a row of {topic} that has caught up at {count}")

        await_row(_RECORDS)
        kafka.produce(source, topic, [b"more"] * 10)
        await_row(_RECORDS + 10)
        terminal.type(_CTRL_C)
        code = terminal.process.wait(180)
        assert terminal.has_its_settings()

    assert code == 0, terminal.text
    rows = terminal.rows(topic)
    assert any(row.lag > 0 and row.state.endswith("copying") for row in rows)
    assert rows[-1].state == "caught up"
    assert [row for row in rows if row.lag != max(0, row.end - row.position)] == []
    assert re.search(r"^topic +position +end +copied +lag +records/s +ETA +state *$", terminal.text, re.MULTILINE)
    assert "log level" not in terminal.text, "what Spark's JVM has to say is for --verbose"
    assert terminal.raw.count(_HIDE_CURSOR) > 0
    assert terminal.raw.rindex(_SHOW_CURSOR) > terminal.raw.rindex(_HIDE_CURSOR)
    assert terminal.text.count("Stopping after the last commit") == 1
    assert "Traceback" not in terminal.text
    assert re.search(rf"^{pipeline.name}: {_RECORDS + 10:,} records, ", terminal.text, re.MULTILINE)
    assert re.search(rf"^  {topic} .* lag 0$", terminal.text, re.MULTILINE)
    assert_same_content(source, topic, target)
    assert_exact_mappings(pipeline, source, target, topic)


def slow_commits() -> dict[str, dict[str, object]]:
    name = kafka.unique("shown")
    return {"commit": {"topic": f"{name}-commits", "batchSize": 1}, "assignment": {"topic": f"{name}-claims"}}


@pytest.mark.slow
def test_a_second_ctrl_c_ends_it_at_once_without_a_word_of_what_breaks(tmp_path: Path, clusters: KafkaSandbox) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = kafka.create_topic(source, kafka.unique("shown"))
    kafka.produce(source, topic, [b"%d" % i for i in range(_RECORDS)])
    make_pipeline(tmp_path, source, target, [topic], features={"exactlyOnce": "enabled"}, coordination=slow_commits())
    (path,) = tmp_path.glob("*.yaml")
    with on_a_terminal("-f", path) as terminal:
        wait_until(lambda: any(row.copied for row in terminal.rows(topic)), 300, f"a row of {topic}")
        terminal.type(_CTRL_C)
        wait_until(lambda: "once more leaves at once" in terminal.text, 120, "the answer to Ctrl-C", interval=0.001)
        terminal.type(_CTRL_C)
        code = terminal.process.wait(180)
    assert code == 130, terminal.text
    assert terminal.raw.rindex(_SHOW_CURSOR) > terminal.raw.rindex(_HIDE_CURSOR)
    assert not re.search(r"Traceback|Exception|^\s+at ", terminal.text, re.MULTILINE), terminal.text
