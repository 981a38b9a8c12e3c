"""Number of examples for a property: few in `make check`, many in `make storm`.

That none of them has a deadline is in the profile that `conftest.py` loads.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, settings

_TIMES = float(os.environ.get("K2K_EXAMPLES", "1"))


def examples(count: int, suppress_health_check: Sequence[HealthCheck] = (), **rest: Any) -> settings:
    """Settings of a property.

    Args:
        count: Of its examples; K2K_EXAMPLES in the environment multiplies it.
        suppress_health_check: Besides those that the profile leaves out.
        rest: More of hypothesis's settings.
    """
    left_out = [*settings().suppress_health_check, *suppress_health_check]
    return settings(max_examples=scaled(count), suppress_health_check=left_out, **rest)


def scaled(count: int) -> int:
    """A number of examples, multiplied by K2K_EXAMPLES; of properties that name none, conftest.py scales the usual."""
    return max(1, round(count * _TIMES))
