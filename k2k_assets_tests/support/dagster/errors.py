"""The errors of a run in Dagster, as its UI shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import dagster as dg
from dagster_shared.error import SerializableErrorInfo


def errors_in(events: Iterable[dg.DagsterEvent]) -> list[SerializableErrorInfo]:
    """All errors of some events, each followed by what caused it and by what was handled meanwhile."""
    return [error for event in events for error in _errors(event.event_specific_data)]


def frames_of(errors: Iterable[SerializableErrorInfo], package: str) -> list[str]:
    """The frames of some errors whose file lies in a package, or in one whose name begins with it."""
    return [frame for error in errors for frame in error.stack if f"/{package}" in frame.partition(",")[0]]


def _errors(data: Any) -> Iterator[SerializableErrorInfo]:
    for name in ("error", "error_info", "first_step_failure_event"):
        found = getattr(data, name, None)
        if isinstance(found, SerializableErrorInfo):
            yield from _chain(found)
        elif isinstance(found, dg.DagsterEvent):
            yield from _errors(found.event_specific_data)


def _chain(error: SerializableErrorInfo) -> Iterator[SerializableErrorInfo]:
    yield error
    for other in (error.cause, error.context):
        if other is not None:
            yield from _chain(other)
