"""What a log line is about, as fields beside its text: pipeline, instance, slot, topic, partition, offset, code.

The fields come from the process (`note`), from the work that a thread does (`logged_with`), from the line's arguments
(a topic partition), and from the line itself (`extra=about(...)`); the later ones win. They are gathered only where
somebody wants them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from k2k_assets.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from k2k_assets.core.stops.reason import StopReason

Field = str | int
_EXTRA = "k2k_fields"
_process: dict[str, Field] = {}
_work: ContextVar[Mapping[str, Field]] = ContextVar("k2k_log_fields")


def note(**fields: Field) -> None:
    """Notes fields for all lines of this process from now on."""
    _process.update(fields)


def forget() -> None:
    """Forgets the fields of this process, because a new call begins."""
    _process.clear()


@contextmanager
def logged_with(**fields: Field) -> Iterator[None]:
    """Gives fields to the lines that this thread logs in the body."""
    token = _work.set({**_work.get({}), **fields})
    try:
        yield
    finally:
        _work.reset(token)


def about(*, reason: StopReason | None = None, **fields: Field) -> dict[str, dict[str, Field]]:
    """Fields of one line, for `extra`.

    Args:
        reason: A stop reason, with its code and its offset, if it has one.
        fields: Others.
    """
    if reason is None:
        return {_EXTRA: fields}
    facts = vars(reason)
    offset = next((facts[name] for name in ("offset", "position") if isinstance(facts.get(name), int)), None)
    return {_EXTRA: {"code": reason.code, **({} if offset is None else {"offset": offset}), **fields}}


def fields_of(record: logging.LogRecord) -> dict[str, Field]:
    """The fields of a line; call it in the thread that logs.

    Args:
        record: The line.
    """
    found = {**_process, **_work.get({})}
    arguments = record.args if isinstance(record.args, tuple) else ()
    for argument in arguments:
        if isinstance(argument, TopicPartition):
            found.update(topic=argument.topic, partition=argument.partition)
            break
    return {**found, **getattr(record, _EXTRA, {})}
