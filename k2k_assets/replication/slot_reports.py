"""What slots report to the driver beside the control topics: lines of JSON over TCP. Pure.

```
{"token": "...", "slot": 3, "generation": 17}                                           first, once
{"kind": "session", "began": 1795679177457, "ended": 1795679190002, "error": "Restart", "aborted": true}
{"kind": "commits", "durations": {"counts": [0, 2, ...], "seconds": 0.007}, "ages": {"orders": {...}}}    once a second
{"kind": "log", "time": 1795679177457000000, "level": 40, "logger": "k2k.replication", "text": "...", "fields": {...}}
{"kind": "statistics", "of": "consumer", "client": "rdkafka#consumer-1", "counters": {...}, "gauges": {...}}
```

Reports are lost where the driver cannot be reached, and a slot that is killed makes none: nothing depends on them.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from operator import add
from typing import Any, NamedTuple

from k2k_assets.core.log_fields import Field
from k2k_assets.transport.client_statistics import ClientFigures, ClientKind

MOST_BYTES = 64 * 1024
"""Longest line."""
DURATION_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Of what commits take, seconds."""
AGE_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 86400.0)
"""Of the ages of records, seconds: those of a backlog can be told apart up to a day."""
# Of a log line; JSON writes a character with up to twelve.
_MOST_TEXT = 4096


class SessionEnded(NamedTuple):
    """A session of a slot has ended.

    Attributes:
        began: Milliseconds since the epoch, by the slot's clock.
        ended: Likewise.
        error: Name of the class of the error that ended it; empty if none did.
        aborted: Whether it had records in hand, which were given up: nothing of them is committed.
    """

    began: int
    ended: int
    error: str
    aborted: bool


class Statistics(NamedTuple):
    """The statistics of a client.

    Attributes:
        of: Kind of the client.
        figures: What they say.
    """

    of: ClientKind
    figures: ClientFigures


class Distribution(NamedTuple):
    """Values of seconds, counted.

    Attributes:
        counts: How many lie up to each bound, and above the one before; the last count is of those above all.
        seconds: Their sum.
    """

    counts: list[int]
    seconds: float

    @classmethod
    def of(cls, values: Sequence[float], bounds: Sequence[float]) -> Distribution:
        """Counts values."""
        counts = [0] * (len(bounds) + 1)
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        return cls(counts, sum(values))

    def plus(self, others: Distribution) -> Distribution:
        """Both together; they have the same bounds."""
        return Distribution(list(map(add, self.counts, others.counts)), self.seconds + others.seconds)


class Commits(NamedTuple):
    """Commits of a slot, those since the last report of them.

    Attributes:
        durations: What they took, by `DURATION_BOUNDS`.
        ages: By source topic, the age of the oldest record of each commit that has records of the topic, when it was
            committed, by `AGE_BOUNDS`.
    """

    durations: Distribution
    ages: dict[str, Distribution]


class LogLine(NamedTuple):
    """A line that a slot has logged.

    Attributes:
        time: Nanoseconds since the epoch, by the slot's clock.
        level: Python's number of the level.
        logger: Name of the logger.
        text: The line.
        fields: See `core/log_fields.py`.
    """

    time: int
    level: int
    logger: str
    text: str
    fields: dict[str, Field]


Report = SessionEnded | Statistics | Commits | LogLine


class Greeting(NamedTuple):
    """The first line of a slot.

    Attributes:
        token: `ReportAddress.token`.
        slot: Number of the slot.
        generation: Generation of its instance.
    """

    token: str
    slot: int
    generation: int

    def line(self) -> bytes:
        """As a line."""
        return _line(self._asdict())

    @classmethod
    def of_line(cls, line: bytes) -> Greeting:
        """Reads a line.

        Raises:
            ValueError: It is none.
        """
        try:
            document = json.loads(line)
            return cls(str(document["token"]), int(document["slot"]), int(document["generation"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"no greeting: {error!r}") from None


def line_of(report: Report) -> bytes:
    """A report as a line."""
    if isinstance(report, SessionEnded):
        return _line({"kind": "session", **report._asdict()})
    if isinstance(report, LogLine):
        return _line({"kind": "log", **report._replace(text=report.text[:_MOST_TEXT])._asdict()})
    if isinstance(report, Commits):
        ages = {topic: each._asdict() for topic, each in report.ages.items()}
        return _line({"kind": "commits", "durations": report.durations._asdict(), "ages": ages})
    return _line({"kind": "statistics", "of": report.of, **report.figures._asdict()})


def report_of(line: bytes) -> Report:
    """Reads a line as a report.

    Raises:
        ValueError: It is none.
    """
    try:
        document = json.loads(line)
        if document["kind"] == "session":
            began, ended = int(document["began"]), int(document["ended"])
            return SessionEnded(began, ended, str(document["error"]), bool(document["aborted"]))
        if document["kind"] == "log":
            fields = {str(k): v if isinstance(v, int) else str(v) for k, v in document["fields"].items()}
            of = int(document["time"]), int(document["level"])
            return LogLine(*of, str(document["logger"]), str(document["text"]), fields)
        if document["kind"] == "commits":
            ages = {str(topic): _distribution(each, AGE_BOUNDS) for topic, each in document["ages"].items()}
            return Commits(_distribution(document["durations"], DURATION_BOUNDS), ages)
        if document["kind"] == "statistics" and document["of"] in ("consumer", "producer"):
            numbers = ({str(k): float(v) for k, v in document[kind].items()} for kind in ("counters", "gauges"))
            return Statistics(document["of"], ClientFigures(str(document["client"]), *numbers))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no report: {error!r}") from None
    raise ValueError(f"no report of a known kind: {document['kind']!r}")


def _distribution(document: dict[str, Any], bounds: Sequence[float]) -> Distribution:
    counts = list(map(int, document["counts"]))
    if len(counts) != len(bounds) + 1:
        raise ValueError(f"no report: {len(counts)} counts by {len(bounds)} bounds")
    return Distribution(counts, float(document["seconds"]))


def _line(document: dict[str, object]) -> bytes:
    return json.dumps(document).encode() + b"\n"
