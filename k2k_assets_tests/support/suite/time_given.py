"""The time that a run of the suite is given: a test that it leaves no room for is skipped, and named at the end."""

from __future__ import annotations

import os
import time

import pytest

_VARIABLE = "K2K_UNTIL"
_WHY = f"no time was left ({_VARIABLE})"


def is_time_limited() -> bool:
    """Whether K2K_UNTIL is given."""
    return bool(os.environ.get(_VARIABLE))


def skip_when_time_is_over(item: pytest.Item) -> None:
    """Marks a test as skipped if it would begin after K2K_UNTIL (seconds since 1970); without that it has time."""
    until = os.environ.get(_VARIABLE)
    if until and time.time() > float(until):
        item.add_marker(pytest.mark.skip(reason=_WHY))
