"""Compares the way back by a map that lacks mapping records with the way back by the whole mapping."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from hypothesis import strategies as st

from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, Offsets, PartitionMap
from k2k_assets.mapping.algebra.spread import combine_back
from k2k_assets.mapping.algebra.translate import TranslationState, count_below, translate_back


def assert_none_skipped_back(
    whole: PartitionMap, found: PartitionMap, targets: Collection[Target], data: st.DataObject
) -> None:
    """Asserts that no answer lies behind a record that is unread by the whole mapping; unknown is no answer."""
    for target in targets:
        positions = np.arange(_end(whole, target) + 3)
        right, answer = (translate_back(each, target, positions) for each in (whole, found))
        told = (answer.states <= TranslationState.AHEAD) & (right.states <= TranslationState.AHEAD)
        below, wanted = (_copied_below(whole, [target], each.offsets[told]) for each in (answer, right))
        assert below.tolist() == wanted.tolist(), (target, answer, right)
    read = {target: data.draw(st.integers(0, _end(whole, target) + 2)) for target in targets}
    (right_offset, right_state), (offset, state) = (combine_back(each, read) for each in (whole, found))
    if TranslationState.EXACT == right_state == state:
        below, wanted = (_copied_below(whole, targets, np.array([each])) for each in (offset, right_offset))
        assert below[0] <= wanted[0], (read, offset, right_offset)


def _end(mapping: PartitionMap, target: Target) -> int:
    runs = mapping.runs.get(target, NO_RUNS)
    return runs.target_end if len(runs) else 0


def _copied_below(mapping: PartitionMap, targets: Collection[Target], offsets: Offsets) -> Offsets:
    """Number of copied records below source offsets: two offsets that differ by no record are one position."""
    tables = [mapping.runs.get(target, NO_RUNS) for target in targets]
    return sum((count_below(runs.source_starts, runs.counts, offsets) for runs in tables), np.zeros_like(offsets))
