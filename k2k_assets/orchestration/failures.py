"""Turns errors that users can act on into Dagster failures that show the message without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dagster import Failure
from pyspark.errors import PythonException

from k2k_assets.core.errors import K2KError
from k2k_assets.spark.error_cause import error_cause


@contextmanager
def failures_as_messages() -> Iterator[None]:
    """Raises a `K2KError` of the body as a `Failure` with the same message; of an error of a Spark task, its cause."""
    try:
        yield
    except K2KError as error:
        raise Failure(description=str(error), metadata={"k2k/error": type(error).__name__}) from None
    except PythonException as error:
        raise Failure(description=error_cause(error)) from error
