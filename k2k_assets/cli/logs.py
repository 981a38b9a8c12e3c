"""Where a command's log lines go: standard error, above the live display if there is one."""

from __future__ import annotations

import logging
import os
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from k2k_assets.cli.suggestions import with_files
from k2k_assets.core.json_logs import JsonFormatter, is_json
from k2k_assets.spark.java_process import LOG4J_FLAG, OPTIONS_VARIABLE

_STYLES = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}
_QUIET, _VERBOSE = (Path(__file__).with_name(name) for name in ("log4j2.properties", "log4j2-verbose.properties"))
_JSON_LINES = Path(__file__).with_name("log4j2-json.properties")
_JSON = JsonFormatter(with_files)
_NOISY = ("py4j", "pyspark", "SQLQueryContextLogger")


class ConsoleHandler(logging.Handler):
    """Prints lines through a console, so that they do not break a live display: time, level, message, or JSON."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Prints one record; never wraps or interprets it."""
        try:
            if is_json():
                self._console.print(Text(_JSON.format(record)), soft_wrap=True)
                return
            time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
            text = with_files(record.getMessage())
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            line = Text(f"{time} {record.levelname:<7} {text}", style=_STYLES.get(record.levelno, ""))
            self._console.print(line, soft_wrap=True)
        except Exception:
            self.handleError(record)


def configure(console: Console, verbose: bool = False) -> None:
    """Shows our own log from INFO, other libraries' warnings, and only errors of Spark's Python side.

    Args:
        console: The console for the log.
        verbose: Whether Spark's log is shown like ours.
    """
    ours = logging.getLogger("k2k")
    ours.handlers = [ConsoleHandler(console)]
    ours.setLevel(logging.INFO)
    # Without a handler, the first `logging.info(...)` of any library (py4j, when Java is gone) adds one to the root
    # logger, and then each of our lines would be printed twice.
    others = ConsoleHandler(console)
    others.setLevel(logging.INFO if verbose else logging.WARNING)
    others.addFilter(_is_of_others)
    root = logging.getLogger()
    root.handlers = [*(h for h in root.handlers if not isinstance(h, ConsoleHandler)), others]
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.INFO if verbose else logging.ERROR)


def _is_of_others(record: logging.LogRecord) -> bool:
    """Leaves out our own lines, which are shown already, and py4j's on the root logger, which say that Java is gone."""
    return record.name != "root" and record.name.partition(".")[0] != "k2k"


def set_up_jvm(verbose: bool = False) -> None:
    """Lets each JVM that Spark starts from now on log only errors, unless the user has configured it.

    Args:
        verbose: Whether it logs everything.
    """
    given = os.environ.get(OPTIONS_VARIABLE, "")
    if "SPARK_CONF_DIR" not in os.environ and LOG4J_FLAG not in given:
        configuration = _JSON_LINES if is_json() else _VERBOSE if verbose else _QUIET
        level = " -Dk2k.jvm.level=info" if is_json() and verbose else ""
        os.environ[OPTIONS_VARIABLE] = f"{given}{level} {LOG4J_FLAG}={configuration.as_uri()}".strip()
