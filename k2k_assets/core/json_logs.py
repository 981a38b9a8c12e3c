"""Log lines as JSON, one a line, for programs that collect logs: `--log-format json`.

```
{"time": "2026-11-26T08:15:30.123Z", "level": "ERROR", "logger": "k2k.replication", "message": "orders-3 is stopped",
 "pipeline": "orders", "instance": "host-1:4711", "slot": 2, "generation": 17, "topic": "orders", "partition": 3, ...}
```

The format is an environment variable, which Spark's workers inherit.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from k2k_assets.core.log_fields import fields_of

FORMAT_VARIABLE = "K2K_LOG_FORMAT"
JSON, TEXT = "json", "text"


_asked: list[str] = []


def ask_for(log_format: str) -> None:
    """Notes the format that a call asks for; `apply_asked` makes it so."""
    _asked[:] = [log_format]


def apply_asked() -> None:
    """Sets the format that the call asks for, for this process and those that it starts from now on."""
    if _asked:
        os.environ[FORMAT_VARIABLE] = _asked[0]


def is_json() -> bool:
    """Whether log lines are JSON."""
    return os.environ.get(FORMAT_VARIABLE) == JSON


@contextmanager
def format_of_call() -> Iterator[None]:
    """Lets what is asked for in the body end with it."""
    before = os.environ.get(FORMAT_VARIABLE)
    _asked.clear()
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(FORMAT_VARIABLE, None)
        else:
            os.environ[FORMAT_VARIABLE] = before


class JsonFormatter(logging.Formatter):
    """Makes a line of JSON.

    Args:
        changed: Changes the message.
    """

    def __init__(self, changed: Callable[[str], str] = str) -> None:
        super().__init__()
        self._changed = changed

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        document: dict[str, object] = {
            "time": time,
            "level": record.levelname,
            "logger": record.name,
            "message": self._changed(record.getMessage()),
            **fields_of(record),
        }
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False)


def line(message: str, level: int, logger: str) -> str:
    """A message as such a line.

    Args:
        message: The message.
        level: Its level.
        logger: Name of the logger.
    """
    return JsonFormatter().format(logging.LogRecord(logger, level, "", 0, "%s", (message,), None))
