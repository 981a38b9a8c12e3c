"""The screen of `k2k status`: stopped partitions and what to do, then topics that move, then a line of quiet topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k2k_assets.cli.suggestions import with_files
from k2k_assets.core.errors import K2KError
from k2k_assets.core.words import duration, plural

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline
    from k2k_assets.status.copy_status import CopiedTopic, CopyStatus, MovedGroups, State
    from k2k_assets.status.lag import TotalLag

_BARS = "▁▂▃▄▅▆▇█"
# Further stopped partitions are only counted.
_MOST_STOPS = 10
# Lines besides topics and stopped partitions.
_SPARE_LINES = 8
_STYLES: dict[State, str] = {"stopped": "red", "paused": "yellow", "not begun": "yellow"}


def status_screen(pipeline: Pipeline, status: CopyStatus, height: int | None = None) -> Group:
    """The screen.

    Args:
        pipeline: The pipeline.
        status: Its status.
        height: Lines of the terminal; None: no limit.
    """
    stops = list(_stops(status))
    rows = None if height is None else max(1, height - _SPARE_LINES - 4 * len(stops))
    return Group(*_head(pipeline, status), *stops, *_topics(status, rows), *_quiet(status.having("quiet")))


class LiveScreen:
    """A screen that is drawn in place.

    Args:
        live: The live display.
        draw: Makes the screen from a status, for a number of lines.
    """

    def __init__(self, live: Live, draw: Callable[[CopyStatus, int], RenderableType]) -> None:
        self._live, self._draw = live, draw
        self._last: RenderableType = Text()

    def show(self, status: CopyStatus) -> None:
        """Draws a status."""
        self._last = self._draw(status, self._live.console.height)
        self._live.update(self._last, refresh=True)

    def tell(self, error: K2KError) -> None:
        """Keeps the last status on the screen, and shows the error below."""
        self._live.update(Group(self._last, Text(f"\nwaiting: {error}", style="yellow")), refresh=True)


def _head(pipeline: Pipeline, status: CopyStatus) -> Iterator[RenderableType]:
    mode = "exactly once" if pipeline.features.exactly_once else "at least once"
    servers = [pipeline.client_properties(role, "admin")["bootstrap.servers"] for role in ("source", "target")]
    yield Text.assemble((pipeline.name, "bold"), f"  {mode}  {servers[0]} -> {servers[1]}")
    lag = status.lag
    parts = [
        f"{status.rate:,.0f} records/s",
        f"{behind(lag)} behind",
        f"lag {lag.offsets:,}",
        f"last commit {_ago(status.last_commit, status.time)}",
        *_groups(status.groups),
    ]
    yield Text(", ".join(parts))


def _groups(groups: MovedGroups | None) -> Iterator[str]:
    if groups is not None:
        moved = f"{groups.on_target} of {plural(groups.selected, 'group')} on the target"
        yield "groups unknown" if groups.unknown else moved if groups.selected else "no groups"


def behind(lag: TotalLag) -> str:
    """Seconds behind as text; "or more" if some partitions are unknown."""
    if lag.seconds is None:
        return "unknown" if lag.unknown else "0 s"
    words = duration(lag.seconds) if lag.seconds else "0 s"
    return f"{words} or more" if lag.unknown else words


def _ago(time: int | None, now: int) -> str:
    return "never" if time is None else f"{duration(max(0, now - time) / 1000)} ago"


def _stops(status: CopyStatus) -> Iterator[RenderableType]:
    stopped = [(f"{topic.topic}-{p}", reason) for topic in status.topics for p, reason in topic.stopped.items()]
    for name, reason in stopped[:_MOST_STOPS]:
        yield Text(f"\nstopped: {name} [{reason.code}]", style="bold red")
        yield Padding(Text(reason.found()), (0, 0, 0, 2))
        if remedy := reason.to_do():
            yield Padding(Text(with_files(remedy), style="bold"), (0, 0, 0, 2))
    if len(stopped) > _MOST_STOPS:
        yield Text(f"\nand {plural(len(stopped) - _MOST_STOPS, 'more partition')} stopped", style="bold red")


def _topics(status: CopyStatus, rows: int | None) -> Iterator[RenderableType]:
    topics = [
        *status.having("stopped"),
        *status.having("paused"),
        *_by_lag(status.having("behind", "active", "not begun")),
    ]
    if not status.topics:
        yield Text("\nno topic of the source is selected", style="yellow")
    if not topics:
        return
    table = Table("topic", box=None, pad_edge=False, header_style="bold")
    for name in ("lag", "behind", "records/s", "last commit"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("last 10 min", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for topic in topics[:rows]:
        table.add_row(*_cells(topic, status.time), style=_STYLES.get(topic.state, ""))
    left = len(topics) - len(topics[:rows])
    if left:
        table.add_row(f"and {plural(left, 'more topic')}", style="dim")
    yield Text()
    yield table


def _by_lag(topics: list[CopiedTopic]) -> list[CopiedTopic]:
    return sorted(topics, key=lambda topic: (-(topic.lag.seconds or 0), -topic.lag.offsets, topic.topic))


def _cells(topic: CopiedTopic, now: int) -> list[str]:
    lag = topic.lag
    return [
        topic.topic if topic.target in (topic.topic, None) else f"{topic.topic} -> {topic.target}",
        f"{lag.offsets:,}",
        behind(lag),
        f"{topic.rate:,.0f}",
        _ago(topic.last_commit, now),
        sparkline(topic.history),
        str(topic.paused) if topic.paused and not topic.stopped else topic.state,
    ]


def sparkline(counts: Sequence[int]) -> str:
    """A bar for each count; the lowest bar means 0."""
    most = max(counts, default=0)
    return "".join(_BARS[0 if not count else 1 + (count * (len(_BARS) - 2)) // most] for count in counts)


def _quiet(topics: list[CopiedTopic]) -> Iterator[RenderableType]:
    if topics:
        names = ", ".join(topic.topic for topic in topics)
        text = f"\nquiet, nothing left to copy: {plural(len(topics), 'topic')} ({names})"
        yield Text(text, style="dim", no_wrap=True, overflow="ellipsis")
