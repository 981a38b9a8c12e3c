"""Whose turn it is in checks that look at a part of everything each time: remembered between processes.

A run of Dagster is a process of its own, so the turn lies in a file. A file that cannot be used costs order, not truth:
then the turn is drawn at random.
"""

from __future__ import annotations

import json
import random

from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.core.errors import K2KError
from k2k_assets.core.home import turn_file


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


def runs_for_all(count: int, most: int) -> int:
    """In how many turns all of so many are looked at, at most so many in each.

    The part of a turn is every n-th, from `turn % n` on.
    """
    return max(1, -(-count // most))
