"""Shows polls of the offset mapper: a live table on a terminal, log lines elsewhere, a summary at the end."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.table import Table

from k2k_assets.core.log_fields import about
from k2k_assets.core.words import plural

if TYPE_CHECKING:
    from k2k_assets.groups.report import PollResult

Observer = Callable[["PollResult"], None]

_log = logging.getLogger("k2k.groups")

# Seconds between two lines if nothing changes.
_QUIET_SECONDS = 60.0
_SPARE_LINES = 7
# States that need no attention.
_FINE = ("exact", "ahead", "waiting", "may be read again")


class GroupStatus(NamedTuple):
    """One group, for a row of a table.

    Attributes:
        group: Its name.
        states: Number of its partitions in each state.
        left_on_source: Offsets left to read on the source.
        left_on_target: Offsets left to read on the target, from the translated positions.
        committed: Whether the poll committed it.
        again: Records that it reads again, as far as the mappings tell.
    """

    group: str
    states: dict[str, int]
    left_on_source: int
    left_on_target: int
    committed: bool
    again: int = 0

    @property
    def fine(self) -> bool:
        """Whether the group needs no attention."""
        return all(word in _FINE for word in self.states)

    @property
    def state(self) -> str:
        """The states of its partitions, as text."""
        words = ", ".join(f"{count} {word}" if len(self.states) > 1 else word for word, count in self.states.items())
        return f"{words} ({plural(self.again, 'record')})" if self.again else words


def statuses(result: PollResult) -> list[GroupStatus]:
    """The status of each group in a poll."""
    found = []
    for group in result.groups:
        lines = result.lines(group)
        found.append(
            GroupStatus(
                group,
                dict(Counter(line.decision.value for line in lines).most_common()),
                *result.left(group),
                any(line.committed for line in lines),
                sum(line.again for line in lines),
            )
        )
    return found


def poll_line(result: PollResult) -> str:
    """Groups, positions by state, and what was committed: `3 groups: 12 exact; 1 group committed`."""
    counts = ", ".join(f"{count:,} {word.value}" for word, count in result.decision_counts.most_common())
    parts = [f"{plural(len(result.decisions), 'group')}: {counts or 'no positions'}"]
    parts.append(f"{plural(len(result.committed), 'group')} committed")
    for name, groups in (("became active", result.active), ("failed", result.failed)):
        if groups:
            parts.append(f"{len(groups):,} {name}")
    if result.offline_partitions:
        parts.append(f"no leader, or hidden: {', '.join(map(str, sorted(result.offline_partitions)[:5]))}")
    for what, names in (("not handled (no consumer groups)", result.not_handled), ("not on the source", result.absent)):
        if names:
            parts.append(f"{what}: {', '.join(names[:5])}")
    return f"{'; '.join(parts)}; {result.seconds:.2f} s"


def summary(name: str, result: PollResult) -> str:
    """A head line, and a line for each group.

    Args:
        name: Name of the pipeline.
        result: The poll.
    """
    rows = [
        [
            status.group,
            plural(sum(status.states.values()), "partition"),
            status.state,
            f"left {status.left_on_source:,} on the source",
            f"{status.left_on_target:,} on the target",
            "committed" if status.committed else "",
        ]
        for status in statuses(result)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"{partition} is unknown: {why}" for partition, why in sorted(result.unproven.items())]
    return "\n".join([f"{name}: {poll_line(result)}", *(f"  {line}" for line in lines)])


@contextmanager
def shown(console: Console) -> Iterator[Observer]:
    """The observer for a console, while the context lasts."""
    if not console.is_terminal:
        yield GroupLines().show
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda result: live.update(status_table(result, max(1, console.height - _SPARE_LINES)), refresh=True)


def status_table(result: PollResult, rows: int) -> Table:
    """The table of groups; if they are more than `rows`, those that need attention come first."""
    table = Table("group", box=None, pad_edge=False, header_style="bold")
    for name in ("partitions", "left on source", "left on target"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    all_of_them = statuses(result)
    chosen = all_of_them
    if len(all_of_them) > rows:
        chosen = sorted(all_of_them, key=lambda status: (status.fine, -status.left_on_source))[:rows]
    for status in chosen:
        numbers = (sum(status.states.values()), status.left_on_source, status.left_on_target)
        style = "" if status.fine else "yellow"
        table.add_row(status.group, *(f"{number:,}" for number in numbers), status.state, style=style)
    if len(all_of_them) > len(chosen):
        table.add_row(f"and {plural(len(all_of_them) - len(chosen), 'more group')}", style="dim")
    table.add_section()
    table.add_row(poll_line(result), style="bold")
    return table


class GroupLines:
    """A log line for each poll that committed something or found something new, and one a minute.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock()
        self._told: dict[str, str] = {}

    def show(self, result: PollResult) -> None:
        """Logs what changed."""
        for group, why in result.failed.items():
            if self._told.get(group) != why:
                _log.warning("group %s: %s", group, why, extra=about(group=group))
        news = {status.group: status.state for status in statuses(result) if not status.fine}
        for group, state in news.items():
            if self._told.get(group) != state:
                _log.warning("group %s: %s", group, state, extra=about(group=group))
        for partition, why in {**result.offline_partitions, **result.unproven}.items():
            if self._told.get(str(partition)) != why:
                _log.warning("%s: %s", partition, why)
        told = {
            **news,
            **result.failed,
            **{str(tp): why for tp, why in {**result.unproven, **result.offline_partitions}.items()},
        }
        new = told != self._told
        self._told = told
        if new or result.committed or self._clock() >= self._next:
            self._next = self._clock() + _QUIET_SECONDS
            _log.info(poll_line(result))
