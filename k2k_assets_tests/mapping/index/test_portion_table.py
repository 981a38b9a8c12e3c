"""The table of portions: reading gives what was written, also between releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from k2k_assets.mapping.algebra.fold import Beginning, Covered, Order
from k2k_assets.mapping.algebra.partition_map import NO_RUNS, SourcePartition
from k2k_assets.mapping.index.portion_table import (
    PORTIONS,
    complete,
    from_table,
    read_portions,
    to_table,
    write_portions,
)
from k2k_assets.mapping.index.portions import Portion, cut

SOURCE = SourcePartition("c", "s", "sid", 0)
PORTION = Portion(
    SOURCE,
    "1",
    "",
    0,
    20,
    (Covered(0, 20),),
    Order(1, 1),
    Beginning(1, 0, 3),
    Order(1, 2),
    5,
    6,
    2,
    (),
    (Covered(3, 5), Covered(9, 15)),
)


def test_what_is_written_is_read_again() -> None:
    assert from_table(to_table([PORTION])) == [PORTION]


def test_a_table_of_a_release_that_did_not_note_what_was_skipped() -> None:
    [old] = from_table(to_table([PORTION]).drop_columns(["skipped"]))
    assert (old.covered, old.skipped) == (PORTION.covered, ())


def test_below_a_hole_an_index_of_an_older_release_knows_nothing() -> None:
    """It did not ask whether what is missing went elsewhere."""
    first, second = (
        replace(PORTION, start=at, end=at + 20, covered=(Covered(at, at + 5), Covered(at + 5, at + 20)), newest=newest)
        for at, newest in ((0, Order(1, 1)), (20, Order(1, 2)))
    )
    later = replace(PORTION, start=50, end=60, covered=(Covered(50, 60),), newest=Order(2, 1))
    other = replace(PORTION, source=SOURCE._replace(partition=1), covered=())
    old = to_table([first, second, later, other]).drop_columns(["began"])
    assert [each.covered for each in from_table(complete(old))] == [(), (), later.covered, ()]
    [one, two] = from_table(complete(to_table([first, second]).drop_columns(["began"])))
    assert (one.covered, two.covered) == (first.covered, second.covered)


def test_a_copy_that_starts_again_cuts_what_was_skipped_too() -> None:
    kept = cut(PORTION, 10, lambda *_: NO_RUNS)
    assert kept is not None
    assert (kept.covered, kept.skipped) == ((Covered(0, 10),), (Covered(3, 5), Covered(9, 10)))


def test_a_version_of_a_release_that_wrote_fewer_columns_is_read_with_all_of_them(tmp_path: Path) -> None:
    write_portions(
        tmp_path, "old", to_table([PORTION]).drop_columns(["skipped", "settings", "set_at", "forward_since", "began"])
    )
    found = read_portions(tmp_path, "old")
    assert found.schema == PORTIONS
    assert from_table(found) == [replace(PORTION, skipped=(), beginning=Beginning(1, 1, 0))]
    assert read_portions(tmp_path, "old", ["segment"]).to_pylist() == [{"segment": "1"}]
