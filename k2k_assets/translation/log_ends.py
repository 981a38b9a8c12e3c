"""What the end of a source's log, as far as it is the one that was copied, means for positions. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from k2k_assets.kafka.groups import CommittedOffset
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


def is_of_former_log(committed: CommittedOffset | None, read_to: Mapping[int, int]) -> bool:
    """Whether a group may have read records that the log has no more.

    Args:
        committed: Its commit on the source; None if there is none.
        read_to: `LogEnds.read_to` of the partition. A commit without a leader epoch proves nothing.
    """
    if committed is None or committed.leader_epoch is None:
        return False
    return committed.offset > read_to.get(committed.leader_epoch, committed.offset)


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
