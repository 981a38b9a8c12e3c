"""Which cases of a test run at each change, and which only in `make storm`."""

from __future__ import annotations

from typing import Any

import pytest


def in_storms(*cases: tuple[Any, ...]) -> list[Any]:
    """Cases of a parametrized test that run in `make storm` only.

    Args:
        cases: The values of each.
    """
    return [pytest.param(*case, marks=pytest.mark.storm) for case in cases]


MODES = pytest.mark.parametrize("mode", ["enabled", *in_storms(("disabled",))])
"""`features.exactlyOnce` of a test that both delivery modes pass, one of them in `make storm`."""
