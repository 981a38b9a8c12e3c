"""Fields of log lines."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from k2k_assets.core import log_fields
from k2k_assets.core.log_fields import Field, about, fields_of, logged_with, note
from k2k_assets.core.stops.catalog import ALL
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition

ORDERS, RETURNS = TopicPartition("orders", 3), TopicPartition("returns", 0)
_log = logging.getLogger("k2k.test")


@pytest.fixture(autouse=True)
def _nothing_is_noted() -> None:
    log_fields.forget()


@pytest.fixture
def fields() -> Iterator[list[dict[str, Field]]]:
    """Those of each line that is logged."""
    found: list[dict[str, Field]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(fields_of(record))

    handler = Handler()
    _log.addHandler(handler)
    yield found
    _log.removeHandler(handler)


def test_the_nearer_to_the_line_the_stronger(fields: list[dict[str, Field]]) -> None:
    _log.warning("nothing is known")
    note(pipeline="p", slot=9)
    with logged_with(slot=1, topic="of the work"):
        _log.warning("plain")
        _log.warning("%s and %s", ORDERS, RETURNS)
        _log.warning("%s at %d", RETURNS, 7, extra=about(offset=7, slot=2))
    _log.warning("behind it")
    assert fields == [
        {},
        {"pipeline": "p", "slot": 1, "topic": "of the work"},
        {"pipeline": "p", "slot": 1, "topic": "orders", "partition": 3},
        {"pipeline": "p", "slot": 2, "topic": "returns", "partition": 0, "offset": 7},
        {"pipeline": "p", "slot": 9},
    ]


def test_each_thread_has_work_of_its_own(fields: list[dict[str, Field]]) -> None:
    with logged_with(slot=1):
        thread = threading.Thread(target=lambda: _log.warning("from elsewhere"))
        thread.start()
        thread.join()
    assert fields == [{}]


def test_stop_reasons_have_a_code_and_some_an_offset(fields: list[dict[str, Field]]) -> None:
    with_offset = 0
    for kind in ALL.values():
        _log.error("%s is stopped", ORDERS, extra=about(reason=kind.example()))
        assert fields[-1]["code"] == kind.example().code
        with_offset += isinstance(fields[-1].get("offset"), int)
    assert with_offset > 5
    _log.error("%s is stopped", ORDERS, extra=about(reason=SourceDeleted("orders")))
    assert fields[-1] == {"topic": "orders", "partition": 3, "code": "source-deleted"}
