"""A call of the client library that may never return."""

from __future__ import annotations

import threading

import pytest

from k2k_assets.groups.bounded import bounded
from k2k_assets.transport.errors import Restart


def test_it_says_what_the_call_says() -> None:
    def fails() -> None:
        raise KeyError("as it is")

    assert bounded("sending", 10, lambda: None) is None
    assert bounded("sending", 10, lambda: "answer") == "answer"
    with pytest.raises(KeyError, match="as it is"):
        bounded("sending", 10, fails)


def test_a_call_that_does_not_come_back_is_given_up() -> None:
    comes_back = threading.Event()
    with pytest.raises(Restart, match=r"^sending: no answer within 0.05 s$"):
        bounded("sending", 0.05, comes_back.wait)
    comes_back.set()


def test_a_time_out_of_the_call_itself_stays_what_it_is() -> None:
    def times_out() -> None:
        raise TimeoutError("of the call")

    with pytest.raises(TimeoutError, match="of the call"):
        bounded("sending", 10, times_out)
