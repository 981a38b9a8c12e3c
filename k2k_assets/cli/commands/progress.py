"""Shows the progress of a replication while it runs: a live table on a terminal, log lines elsewhere.

Both are observers for `replicate`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from k2k_assets.cli.commands.topic_status import StatusReader, TopicStatus
from k2k_assets.cli.suggestions import with_files
from k2k_assets.core.words import duration, plural

if TYPE_CHECKING:
    from k2k_assets.replication.driver.progress import Progress

Observer = Callable[["Progress"], None]

_log = logging.getLogger("k2k.progress")

_LINE_SECONDS = 5.0
# Who runs it day and night reads the metrics: after the first minutes a topic has a line a minute, else it would be
# 17,000 a day.
_EAGER_SECONDS = 120.0
_LATER_SECONDS = 60.0
# More topics than this share one line.
_OWN_LINES = 10
# Lines of the terminal besides the table's rows: its head, its frame, a line of log.
_SPARE_LINES = 7


@contextmanager
def shown(console: Console) -> Iterator[Observer]:
    """The observer for a console, while the context lasts."""
    if not console.is_terminal:
        yield ProgressLines().show
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveDisplay(live).show


class LiveDisplay:
    """A table that each report draws again.

    Args:
        live: The live display.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self._reader = StatusReader()

    def show(self, progress: Progress) -> None:
        """Draws the table."""
        rows = max(1, self._live.console.height - _SPARE_LINES)
        self._live.update(status_table(self._reader.read(progress), rows), refresh=True)


def status_table(statuses: list[TopicStatus], rows: int) -> Table:
    """The table of topics; if they are more than `rows`, those that lag or need attention come first."""
    table = Table("topic", box=None, pad_edge=False, header_style="bold")
    for name in ("position", "end", "copied", "lag", "records/s", "ETA"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    chosen = statuses
    if len(statuses) > rows:
        chosen = sorted(statuses, key=lambda status: (not status.notes, -status.lag))[:rows]
    for status in chosen:
        table.add_row(*_cells(status), style="red" if status.stopped else "yellow" if status.notes else "")
    if len(statuses) > len(chosen):
        table.add_row(f"and {plural(len(statuses) - len(chosen), 'more topic')}", style="dim")
    if len(statuses) > 1:
        table.add_section()
        table.add_row(*_cells(total(statuses))[:-1], "", style="bold")
    return table


def _cells(status: TopicStatus) -> list[str]:
    return [
        status.topic,
        f"{status.position:,}",
        f"{status.end:,}",
        f"{status.records:,}",
        f"{status.lag:,}",
        f"{status.rate:,.0f}",
        duration(status.eta) if status.eta is not None else "",
        escape(with_files(status.state)),  # the code of a stop reason is in brackets, like rich's markup
    ]


class ProgressLines:
    """A log line for each topic that moved since its last one, every few seconds; one line for many topics.

    After two minutes it is a line a minute, but for topics of which there is something new to remark.

    Args:
        interval: Seconds between two lines of a topic, at first.
        clock: Monotonic seconds.
    """

    def __init__(self, interval: float = _LINE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._clock = clock
        self._next = self._next_of_all = clock()
        self._eager_until = clock() + _EAGER_SECONDS
        self._reader = StatusReader(clock)
        self._shown: dict[str, tuple[int, int, tuple[str, ...]]] = {}

    def show(self, progress: Progress) -> None:
        """Logs the changes since the last line, if the interval has passed."""
        statuses = self._reader.read(progress)
        now = self._clock()
        if now < self._next:
            return
        self._next = now + self._interval
        changed = [status for status in statuses if self._shown.get(status.topic) != _shown(status)]
        if now < self._next_of_all:
            changed = [status for status in changed if self._has_news(status)]
        elif now >= self._eager_until:
            self._next_of_all = now + _LATER_SECONDS
        self._shown.update({status.topic: _shown(status) for status in changed})
        if len(changed) > _OWN_LINES:
            _log.info(status_line(total(statuses)))
            changed = [status for status in changed if status.notes]
        for status in changed:
            _log.log(logging.WARNING if status.notes else logging.INFO, status_line(status))

    def _has_news(self, status: TopicStatus) -> bool:
        before = self._shown.get(status.topic)
        return before is None or before[2] != status.notes


def _shown(status: TopicStatus) -> tuple[int, int, tuple[str, ...]]:
    return status.position, status.lag, status.notes


def status_line(status: TopicStatus) -> str:
    """One line about a topic."""
    parts = [
        f"position {status.position:,} of {status.end:,}",
        f"{status.records:,} copied",
        f"lag {status.lag:,}",
        f"{status.rate:,.0f} records/s",
    ]
    if status.eta is not None:
        parts.append(f"ETA {duration(status.eta)}")
    return f"{status.topic}: {', '.join([*parts, *status.notes])}"


def total(statuses: list[TopicStatus]) -> TopicStatus:
    """The sum of all topics."""
    lag, rate = sum(s.lag for s in statuses), sum(s.rate for s in statuses)
    return TopicStatus(
        topic=plural(len(statuses), "topic"),
        position=sum(s.position for s in statuses),
        end=sum(s.end for s in statuses),
        records=sum(s.records for s in statuses),
        lag=lag,
        rate=rate,
        eta=lag / rate if lag and rate >= 0.5 else None,
        notes=(),
        stopped=any(s.stopped for s in statuses),
    )
