"""Whether mapping records surely go on where the copies of a source partition stood, whatever was lost. Pure.

One of two signs proves it:

- They are of the same generation and begin at or behind the position that it had reached: a generation never goes back.
- They begin at the position that was reached, and their first copy lies right behind the last one, in the same and only
  target partition. Other copies would lie in between; the marker of a transaction is one offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.mapping.algebra.fold import Target

_MARKERS = (0, 1)


class Stand(NamedTuple):
    """Where the copies of a source partition stood.

    Attributes:
        generation: Generation of the last mapping record.
        position: Source offset that it had reached.
        ends: Target offset after the last copy, by target partition.
    """

    generation: int
    position: int
    ends: Mapping[Target, int]


class Beginning(NamedTuple):
    """How the next mapping records begin.

    Attributes:
        generation: Generation of the first one.
        start: Their lowest source offset.
        copies: Target offset of the first copy, by target partition.
    """

    generation: int
    start: int
    copies: Mapping[Target, int]

    @classmethod
    def of(cls, record: MappingRecord) -> Self:
        """That of one record."""
        copies = {Target(to.topic, to.topic_id, to.partition): to.runs[0].target_start for to in record.targets}
        return cls(record.generation, record.covered_from, copies)


def surely_goes_on(stand: Stand, beginning: Beginning) -> bool:
    """Whether no copies can have been made in between that would make what is known wrong."""
    if beginning.generation == stand.generation and beginning.start >= stand.position:
        return True
    if beginning.start != stand.position or len(stand.ends) != 1 or beginning.copies.keys() != stand.ends.keys():
        return False
    return all(start - stand.ends[target] in _MARKERS for target, start in beginning.copies.items())
