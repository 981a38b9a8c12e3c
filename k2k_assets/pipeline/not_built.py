"""What a pipeline file asks for and this release cannot do: refused with what to take out, never left out in silence.

The sections of these features are read and checked like all others; while their feature is off they have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from k2k_assets.pipeline.problems import Path

if TYPE_CHECKING:
    from k2k_assets.pipeline.model import Pipeline

FLAGS: dict[Path, str] = {
    ("features", "bidirectionalReplication"): "records would be copied in circles",
}
"""Flags whose feature is not built yet, and what would be wrong if they were left out in silence."""


def check_not_built(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Path and message of everything that is asked for and not built."""
    features = pipeline.features
    asked = (features.bidirectional_replication,)
    for (path, otherwise), is_asked in zip(FLAGS.items(), asked, strict=True):
        if is_asked:
            yield path, f"not supported yet: {otherwise}. Take it out, or write disabled; its sections may stay"
