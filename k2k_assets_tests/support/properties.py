"""How many examples a property is tried with: few at each change, many in `make storm`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

_TIMES = int(os.environ.get("K2K_EXAMPLES", "1"))


def examples(count: int, **rest: Any) -> settings:
    """Settings of a property.

    Args:
        count: Of its examples; K2K_EXAMPLES in the environment multiplies it.
        rest: More of hypothesis's settings.
    """
    return settings(max_examples=count * _TIMES, deadline=None, **rest)
