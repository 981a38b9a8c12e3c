"""What the end of a source's log, as far as it is the one that was copied, means for positions. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from k2k_assets.mapping.algebra.partition_map import Offsets
from k2k_assets.mapping.algebra.translate import Translated, unknown_where

NOT_KNOWN = -1
"""In place of a log's end: nobody could tell. Every position in the log is unknown then, even 0; an end of 0 says that
nothing is left of what was copied."""


def of_another_log(positions: Offsets, end: int | None) -> NDArray[np.bool_]:
    """Which positions on the source belong to another log than the one that was copied, or may do so.

    Args:
        positions: Positions in a source partition.
        end: Up to where its log is the one that was copied, or `NOT_KNOWN`; None: there is nobody to ask.
    """
    return np.zeros(positions.shape, dtype=np.bool_) if end is None else positions > end


def before_end(found: Translated, end: int | None) -> Translated:
    """Positions on the source, at most at the log's end: nobody has read what lies behind a cut-off today.

    Args:
        found: Answers in a source partition.
        end: As for `of_another_log`.
    """
    if end is None:
        return found
    if end == NOT_KNOWN:
        return unknown_where(np.ones(found.offsets.shape, dtype=np.bool_), found)
    return Translated(np.minimum(found.offsets, end), found.states)
