"""What slots report to the driver beside the control topics: lines of JSON over TCP. Pure.

```
{"token": "...", "slot": 3, "generation": 17}                                           first, once
{"kind": "session", "began": 1795679177457, "ended": 1795679190002, "error": "Restart", "aborted": true}
{"kind": "commits", "seconds": [0.0041, 0.0038], "ages": {"orders": [0.012, 0.009]}}      about once a second
{"kind": "log", "time": 1795679177457000000, "level": 40, "logger": "k2k.replication", "text": "...", "fields": {...}}
{"kind": "statistics", "of": "consumer", "client": "rdkafka#consumer-1", "counters": {...}, "gauges": {...}}
```

Reports are lost where the driver cannot be reached, and a slot that is killed makes none: nothing depends on them.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from k2k_assets.core.log_fields import Field
from k2k_assets.transport.client_statistics import ClientFigures, ClientKind

MOST_BYTES = 64 * 1024
"""Longest line."""
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


class Commits(NamedTuple):
    """Commits of a slot, those since the last report of them.

    Attributes:
        seconds: What each took.
        ages: By source topic, the age of the oldest record of each commit that has records of the topic, in seconds
            when it was committed.
    """

    seconds: list[float]
    ages: dict[str, list[float]]


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
        return _line({"kind": "commits", **report._asdict()})
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
            ages = {str(topic): list(map(float, each)) for topic, each in document["ages"].items()}
            return Commits(list(map(float, document["seconds"])), ages)
        if document["kind"] == "statistics" and document["of"] in ("consumer", "producer"):
            numbers = ({str(k): float(v) for k, v in document[kind].items()} for kind in ("counters", "gauges"))
            return Statistics(document["of"], ClientFigures(str(document["client"]), *numbers))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no report: {error!r}") from None
    raise ValueError(f"no report of a known kind: {document['kind']!r}")


def _line(document: dict[str, object]) -> bytes:
    return json.dumps(document).encode() + b"\n"
