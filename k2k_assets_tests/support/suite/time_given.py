"""The time that a run of the suite is given: a test that it leaves no room for is skipped, and named at the end."""

from __future__ import annotations

import os
import time

import pytest

_VARIABLE = "K2K_UNTIL"
_WHY = f"no time was left ({_VARIABLE})"


def is_time_limited() -> bool:
    """Whether K2K_UNTIL is given."""
    return _until() is not None


def skip_when_time_is_over(item: pytest.Item) -> None:
    """Marks a test as skipped if it would begin after K2K_UNTIL; without that it has time."""
    until = _until()
    if until is not None and time.time() > until:
        item.add_marker(pytest.mark.skip(reason=_WHY))


def _until() -> float | None:
    """Seconds since 1970; empty is as good as not given."""
    given = os.environ.get(_VARIABLE)
    return float(given) if given else None
