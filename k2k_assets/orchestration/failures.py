"""Turns errors that users can act on into Dagster failures that show the message without a traceback.

The error of a Spark task is at the end of a long report, so its last line becomes the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dagster import Failure
from pyspark.errors import PythonException

from k2k_assets.core.errors import K2KError, message_lines


@contextmanager
def failures_as_messages() -> Iterator[None]:
    """Raises a `K2KError` of the body as a `Failure` with the same message."""
    try:
        yield
    except K2KError as error:
        raise Failure(description=str(error), metadata={"k2k/error": type(error).__name__}) from None
    except PythonException as error:
        raise Failure(description=last_words("\n".join(message_lines(error)))) from error


def last_words(report: str) -> str:
    """The exception in the report of a Spark task: the last line that is neither Spark's own nor empty."""
    lines = [line.strip() for line in report.splitlines()]
    said = [line for line in lines if line and not line.startswith("SQLSTATE")]
    return said[-1].removesuffix("SQLSTATE: 38000").strip() if said else report
