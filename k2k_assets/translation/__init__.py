"""Translates positions of one cluster to positions of the other, exact where the mappings prove it. Public functions:

- `translate_offsets`: some positions of a partition; no Spark.
- `OffsetTranslator`: the same for many calls, with the mappings read once.
- `translate_frame`: a column of offsets in a PySpark DataFrame.
- `translate_checkpoint`: the offsets of a Spark structured-streaming query.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from k2k_assets.translation.checkpoints import TranslatedCheckpoint, translate_checkpoint
    from k2k_assets.translation.frame import translate_frame
    from k2k_assets.translation.translator import OffsetTranslator, TranslatedOffset, translate_offsets

_MODULES = {
    "TranslatedCheckpoint": "k2k_assets.translation.checkpoints",
    "TranslatedOffset": "k2k_assets.translation.translator",
    "OffsetTranslator": "k2k_assets.translation.translator",
    "translate_checkpoint": "k2k_assets.translation.checkpoints",
    "translate_frame": "k2k_assets.translation.frame",
    "translate_offsets": "k2k_assets.translation.translator",
}
# Former names still work, for programs that were written for an earlier release.
_FORMER_NAMES = {"Translator": "OffsetTranslator"}
__all__ = [
    "OffsetTranslator",
    "TranslatedCheckpoint",
    "TranslatedOffset",
    "translate_checkpoint",
    "translate_frame",
    "translate_offsets",
]


def __getattr__(name: str) -> Any:
    """Imports each name on first use: a program that translates three offsets must not wait for the import of Spark."""
    if name in _FORMER_NAMES:
        warnings.warn(f"{__name__}.{name} is called {_FORMER_NAMES[name]} now", DeprecationWarning, stacklevel=2)
        name = _FORMER_NAMES[name]
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
