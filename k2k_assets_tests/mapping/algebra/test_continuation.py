"""What proves that mapping records go on where copies stood."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.continuation import Beginning, Stand, surely_goes_on
from k2k_assets_tests.support.memory.mapping_topic import mapping_record
from k2k_assets_tests.support.memory.offset_model import target

STAND = Stand(generation=3, position=100, ends={target(0): 250})
RIGHT_BEHIND = mapping_record((4, 0), (100, 110), [(100, 250, 10)])


@pytest.mark.parametrize(
    ("record", "goes_on"),
    [
        (mapping_record((3, 9), (100, 110)), True),
        (mapping_record((3, 9), (130, 140), [(130, 300, 10)]), True),
        (mapping_record((3, 9), (99, 110), [(99, 300, 11)]), False),
        (RIGHT_BEHIND, True),
        (mapping_record((4, 0), (100, 110), [(105, 251, 5)]), True),
        (mapping_record((4, 0), (100, 110), [(100, 252, 10)]), False),
        (mapping_record((4, 0), (101, 110), [(101, 250, 9)]), False),
        (mapping_record((4, 0), (99, 110), [(99, 250, 11)]), False),
        (mapping_record((4, 0), (100, 110)), False),
        (replace(mapping_record((4, 0), (100, 110)), override="by hand"), False),
        (mapping_record((4, 0), (100, 110), {1: [Run(100, 250, 10)]}), False),
        (mapping_record((4, 0), (100, 110), {0: [Run(100, 250, 5)], 1: [Run(105, 0, 5)]}), False),
    ],
)
def test_a_record_goes_on(record: MappingRecord, goes_on: bool) -> None:
    assert surely_goes_on(STAND, Beginning.of(record)) == goes_on


@pytest.mark.parametrize("ends", [{}, {target(0): 250, target(1): 0}])
def test_where_nothing_was_copied_or_into_several_only_the_generation_proves_it(ends: dict[object, int]) -> None:
    stand = STAND._replace(ends=ends)  # type: ignore[arg-type]
    assert not surely_goes_on(stand, Beginning.of(RIGHT_BEHIND))
    assert surely_goes_on(stand, Beginning.of(replace(RIGHT_BEHIND, generation=3)))
