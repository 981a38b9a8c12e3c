"""Kafka-to-Kafka replication as Dagster assets: exactly once, with exact offset mappings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from k2k_assets.orchestration.project.build import build_k2k_assets as build_k2k_assets
    from k2k_assets.orchestration.project.component import K2KPipelineComponent as K2KPipelineComponent

__all__ = ["K2KPipelineComponent", "build_k2k_assets"]

# Imported when asked for: with them comes Dagster, which commands such as `k2k start` do without.
_HOMES = {
    "K2KPipelineComponent": "k2k_assets.orchestration.project.component",
    "build_k2k_assets": "k2k_assets.orchestration.project.build",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
