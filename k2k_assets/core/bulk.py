"""Turns Python's cyclic garbage collection off for work on hundreds of thousands of small objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_cycle_collection() -> Iterator[None]:
    """Turns cycle collection off in its body.

    Positions and answers form no reference cycles, and the collector's passes over them take longer than the work.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
