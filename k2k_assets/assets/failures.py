"""Turns the errors that a user can act on into Dagster failures that show the message and no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dagster import Failure

from k2k_assets.errors import K2KError


@contextmanager
def failures_in_words() -> Iterator[None]:
    """Raises a `K2KError` of the body as a `Failure` with the same words."""
    try:
        yield
    except K2KError as error:
        raise Failure(description=str(error), metadata={"k2k/error": type(error).__name__}) from None
