"""Whose turn it is in checks that look at a part of everything each time: remembered between processes.

A run of Dagster is a process of its own, so the turn lies in a file. A file that cannot be used costs order, not truth:
then the turn is drawn at random.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.core.errors import K2KError
from k2k_assets.core.home import turn_file

T = TypeVar("T")


def next_turn(pipeline_name: str) -> int:
    """Numbers that rise by one with each call, for one pipeline on this machine."""
    try:
        path = turn_file(pipeline_name)
        try:
            turn = int(json.loads(path.read_text(encoding="utf-8"))["turn"]) + 1
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            turn = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"turn": turn}) + "\n")
    except (K2KError, OSError):
        return random.randrange(2**31)
    return turn


def parts(groups: Iterable[Sequence[T]], most: int) -> list[list[T]]:
    """Everything, in parts for as many turns; one empty part if there is nothing.

    Args:
        groups: What of each belongs together lies in one part, unless it is too much.
        most: In one part.
    """
    found: list[list[T]] = [[]]
    for group in groups:
        for first in range(0, len(group), most):
            some = group[first : first + most]
            if len(found[-1]) + len(some) > most:
                found.append([])
            found[-1] += some
    return found
