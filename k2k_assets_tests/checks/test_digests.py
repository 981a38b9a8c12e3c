"""What counts as the same content of a record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from k2k_assets.checks.digests import digest


def _message(timestamp: int = 5, headers: Any = ()) -> Any:
    def read() -> Any:
        if headers is None:
            raise SystemError("a header's key is not UTF-8")
        return headers

    return SimpleNamespace(key=lambda: b"k", value=lambda: b"v", headers=read, timestamp=lambda: (1, timestamp))


def test_timestamp_zero_is_what_its_copy_has() -> None:
    assert digest(_message(0), False, True) == digest(_message(1), False, True)
    assert digest(_message(2), False, True) != digest(_message(1), False, True)


def test_a_record_whose_headers_cannot_be_read_is_like_no_other() -> None:
    """It is never copied, so it is never compared with its copy; but it may lie beside what is."""
    unreadable = digest(_message(headers=None), True, False)
    assert unreadable == digest(_message(headers=None), True, False)
    assert unreadable not in (digest(_message(), True, False), digest(_message(headers=[("a", None)]), True, False))
