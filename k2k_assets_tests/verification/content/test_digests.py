"""Which records have the same content."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from k2k_assets.pipeline.sections.added_headers import AddedHeader
from k2k_assets.verification.content.digests import digest, headers, timestamp
from k2k_assets.verification.content.expected_drops import ExpectedDrops
from k2k_assets.verification.content.expected_headers import ExpectedHeaders


def _message(
    time: int = 5, header: Any = (), kind: int = TIMESTAMP_CREATE_TIME, key: bytes | None = b"k", value: bytes = b"v"
) -> Any:
    def read() -> Any:
        if header is None:
            raise SystemError("a header's key is not UTF-8")
        return header

    return SimpleNamespace(key=lambda: key, value=lambda: value, headers=read, timestamp=lambda: (kind, time))


def _digest(message: Any, with_headers: bool, with_timestamp: bool) -> bytes:
    return digest(message, (message.key(), message.value()), with_headers, with_timestamp) or b""


def test_timestamp_zero_is_what_its_copy_has() -> None:
    assert _digest(_message(0), False, True) == _digest(_message(1), False, True)
    assert _digest(_message(2), False, True) != _digest(_message(1), False, True)


def test_a_record_whose_headers_cannot_be_read_is_like_no_other() -> None:
    """It is never copied, so it is never compared with its copy; but it may lie beside what is."""
    unreadable = _digest(_message(header=None), True, False)
    assert unreadable == _digest(_message(header=None), True, False)
    assert unreadable not in (_digest(_message(), True, False), _digest(_message(header=[("a", None)]), True, False))


def test_a_message_is_asked_for_its_headers_once() -> None:
    """Asked again for headers that it cannot read, the client crashes the process."""
    message, asked = _message(header=None), count(1)
    first = message.headers
    message.headers = lambda: first() if next(asked) == 1 else pytest.fail("asked twice")
    drops, made = ExpectedDrops("marker", "p"), ExpectedHeaders(True, (AddedHeader("marker", "text", "p"),))
    assert digest(message, (b"k", b"v"), True, False, made, drops) is not None
    assert next(asked) == 2


def test_a_record_that_a_rule_leaves_out_has_no_digest() -> None:
    drops = ExpectedDrops("marker", "p")
    for header, is_left_out in (([("marker", b"p")], True), ([("marker", b"q"), ("x", b"p")], False)):
        found = digest(_message(header=header), (b"k", b"v"), False, False, None, drops)
        assert (found is None) is is_left_out


def test_null_and_empty_differ_and_no_byte_moves_from_key_to_value() -> None:
    found = {
        _digest(_message(key=key, value=value), False, False) for key, value in ((None, b"v"), (b"", b"v"), (b"v", b""))
    }
    assert len(found) == 3


def test_no_headers_are_no_digest() -> None:
    assert headers(_message()) == b""
    assert headers(_message(header=[("a", b"")])) != headers(_message(header=[("a", None)]))


def test_a_timestamp_that_a_broker_has_set_does_not_count() -> None:
    assert timestamp(_message(7)) == 7
    assert timestamp(_message(7, kind=TIMESTAMP_LOG_APPEND_TIME)) is None
