"""All kinds of stop reasons, in the order of docs/stops.md. A new kind is a class in one of these files."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from k2k_assets.core.stops.reason import KINDS, StopReason
from k2k_assets.core.stops.reasons import (
    expressions,
    functions,
    offline_partitions,
    permissions,
    positions,
    records,
    schemas,
    source_log,
    source_topic,
    target_log,
    target_topic,
    unclassified,
    unmarked_copies,
    unusable_functions,
)

_FILES: tuple[ModuleType, ...] = (
    source_log,
    source_topic,
    permissions,
    offline_partitions,
    records,
    expressions,
    functions,
    unusable_functions,
    schemas,
    target_topic,
    target_log,
    positions,
    unmarked_copies,
    unclassified,
)

ALL: Mapping[str, type[StopReason]] = {
    code: kind for file in _FILES for code, kind in KINDS.items() if kind.__module__ == file.__name__
}
"""All kinds by code."""
