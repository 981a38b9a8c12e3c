"""Hooks with which a project changes how assets look, and adds work before and after a copy."""

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
    """Describes an asset for the hooks.

    Attributes:
        pipeline: The pipeline's name.
        kind: The kind of asset.
        name: The source topic or the consumer group; their pattern before the first discovery; empty for assets of
            which a pipeline has only one.
        spec: The default spec of the asset.
    """

    pipeline: str
    kind: AssetKind
    name: str
    spec: dg.AssetSpec


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions that are called while definitions are built, and in runs.

    Attributes:
        asset_spec: Returns the spec of an asset. Its key must not change, because sensors and runs report under it.
        execute: Yields the results of a copy, which begins when it calls its second argument.
    """

    asset_spec: Callable[[AssetProps], dg.AssetSpec] = lambda props: props.spec
    execute: Callable[[dg.AssetExecutionContext, Copy], CopyResults] = lambda context, copy: copy()


DEFAULT = Hooks()
