"""`replication`: a list of stages. Each is a map with one key; a `source` comes before its `sink`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field

from k2k_assets.pipeline.parsing.problems import Path
from k2k_assets.pipeline.sections.routing import Routing
from k2k_assets.pipeline.sections.selection import TopicSelection
from k2k_assets.pipeline.sections.values import Section, fault

_SHAPE = "a list of stages: `- source: ...`, then `- sink: ...`, in one pair or several"


STAGES: dict[str, type[Section]] = {"source": TopicSelection, "sink": Routing}
"""Section of a stage, by its key."""


class Stage(Section):
    """One item of the list."""

    source: TopicSelection | None = Field(default=None, description="The topics to copy.")
    sink: Routing | None = Field(default=None, description="Where their records go.")


class StageFault(NamedTuple):
    """A fault of an item of the list itself, not of its content.

    Attributes:
        at: Path below the list.
        expected: What the file should have.
        shown: Whether the message also shows what was found.
    """

    at: Path
    expected: str
    shown: bool = True


def item_faults(value: Sequence[object]) -> Iterator[StageFault]:
    """The fault of each item that is not a stage."""
    for position, item in enumerate(value):
        if isinstance(item, Stage):
            continue
        if not isinstance(item, dict) or len(item) != 1:
            yield StageFault((position,), "one stage an item: `source: ...` or `sink: ...`")
            continue
        kind, content = next(iter(item.items()))
        if kind not in STAGES:
            yield StageFault((position, kind), "`source: ...` or `sink: ...`", shown=False)
        elif not isinstance(content, dict):
            yield StageFault((position, kind), "a mapping")


def _stages(value: object) -> object:
    if not isinstance(value, list | tuple):
        fault(_SHAPE)
    if found := next(item_faults(value), None):
        fault(found.expected, at=found.at, shown=found.shown)
    kinds = [("source" if item.source else "sink") if isinstance(item, Stage) else next(iter(item)) for item in value]
    if not kinds or kinds != ["source", "sink"] * (len(kinds) // 2):
        fault(_SHAPE + f"; found {', '.join(kinds) or 'an empty list'}", shown=False)
    return value


Stages = Annotated[tuple[Stage, ...], BeforeValidator(_stages)]
