"""Takes turns in checks that look at only a part each time, across processes.

A run of Dagster is a process of its own, so the turn is kept in a file of `K2K_HOME`. If the file cannot be used, the
turn is random: that affects the order only, not the verdicts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from k2k_assets.core.errors import K2KError
from k2k_assets.core.home import turn_file

T = TypeVar("T")


def next_turn(pipeline_name: str) -> int:
    """The number of the next turn, which rises by one with each call, for one pipeline."""
    try:
        path = turn_file(pipeline_name)
        try:
            turn = int(json.loads(path.read())["turn"]) + 1
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            turn = 0
        path.replace(json.dumps({"turn": turn}) + "\n")
    except (K2KError, OSError):
        return random.randrange(2**31)
    return turn


def parts(groups: Iterable[Sequence[T]], most: int) -> list[list[T]]:
    """Splits all items into parts, one for each turn; one empty part if there are no items.

    Args:
        groups: Items; those of one sequence stay in one part, unless they are too many.
        most: Largest number of items in one part.
    """
    found: list[list[T]] = [[]]
    for group in groups:
        for first in range(0, len(group), most):
            some = group[first : first + most]
            if len(found[-1]) + len(some) > most:
                found.append([])
            found[-1] += some
    return found
