"""`replication`: a list of stages, each a map with one key; exactly one `source`, then one `sink`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from k2k_assets.pipeline.routing import Routing
from k2k_assets.pipeline.selection import TopicSelection
from k2k_assets.pipeline.values import Section, fault

_SHAPE = "a list of two stages: `- source: ...`, then `- sink: ...`"


class Stage(Section):
    """One item of the list."""

    source: TopicSelection | None = Field(default=None, description="What is read.")
    sink: Routing | None = Field(default=None, description="Where it is written.")


def _stages(value: object) -> object:
    if not isinstance(value, list | tuple):
        fault(_SHAPE)
    kinds = []
    for position, item in enumerate(value):
        if isinstance(item, Stage):
            kinds.append("source" if item.source else "sink")
            continue
        if not isinstance(item, dict) or len(item) != 1:
            fault("one stage an item: `source: ...` or `sink: ...`", at=(position,))
        kind = next(iter(item))
        if kind not in ("source", "sink"):
            fault("`source: ...` or `sink: ...`", at=(position, kind), shown=False)
        if not isinstance(item[kind], dict):
            fault("a mapping", at=(position, kind))
        kinds.append(kind)
    if kinds != ["source", "sink"]:
        fault(_SHAPE + f"; found {', '.join(kinds) or 'an empty list'}", shown=False)
    return value


Stages = Annotated[tuple[Stage, ...], BeforeValidator(_stages)]
