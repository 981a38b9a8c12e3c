"""What a project may have otherwise than we do: how assets look, and what happens around a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import dagster as dg

AssetKind = Literal["source", "topic", "commit_log", "offset_mappings", "consumer_group", "group_positions"]
CopyResults = Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization]
Copy = Callable[[], CopyResults]


@dataclass(frozen=True, slots=True)
class AssetProps:
    """What an asset stands for.

    Attributes:
        pipeline: The pipeline's name.
        kind: What it is of the pipeline.
        name: The topic on the source, or the consumer group; the pattern of those that are not discovered yet; empty
            for what a pipeline has one of.
        spec: How it looks if nobody wants it otherwise.
    """

    pipeline: str
    kind: AssetKind
    name: str
    spec: dg.AssetSpec


@dataclass(frozen=True, slots=True)
class Hooks:
    """What is called while definitions are built, and while they run.

    Attributes:
        asset_spec: How an asset looks. Its key stays: sensors and runs report under it.
        execute: Yields the results of a copy, which begins when its second argument is called.
    """

    asset_spec: Callable[[AssetProps], dg.AssetSpec] = lambda props: props.spec
    execute: Callable[[dg.AssetExecutionContext, Copy], CopyResults] = lambda context, copy: copy()


DEFAULT = Hooks()
