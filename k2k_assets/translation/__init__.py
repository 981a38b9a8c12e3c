"""Translation for everyone: positions of one cluster as positions of the other, exact where the mappings prove it.

- `translate_offsets`: some positions of a partition; no Spark.
- `OffsetTranslator`: the same for many questions, with the mappings read once.
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
# Programs that were written for an earlier release go on working.
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
    """Imports what is asked for only then: who translates three offsets must not wait for Spark."""
    if name in _FORMER_NAMES:
        warnings.warn(f"{__name__}.{name} is called {_FORMER_NAMES[name]} now", DeprecationWarning, stacklevel=2)
        name = _FORMER_NAMES[name]
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
