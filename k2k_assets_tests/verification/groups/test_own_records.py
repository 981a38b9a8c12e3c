"""Records that were written on the target: their order tells whether a group skips some. Windows without a broker."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.verification.content.expected_drops import ExpectedDrops
from k2k_assets.verification.groups.match import Match, RecordWindow, Seen
from k2k_assets.verification.groups.own_records import NEAR, OwnRecords, Windows
from k2k_assets.verification.groups.windows import At

T0 = TopicPartition("t", 0)
RULE = ExpectedDrops("m", "x")


def window(records: list[int], read: int, most: tuple[int, int], from_first: bool = True) -> RecordWindow:
    """A window of records, named by numbers, of which the first ones are read."""
    seen = [Seen(n, b"%d" % n) for n in records]
    before, after = seen[:read], seen[read:]
    kept = before[-most[0] :]
    return RecordWindow(read, tuple(kept), tuple(after[: most[1]]), from_first=from_first)


def compared(
    copies: list[int], read: int, own: list[int], passed: int, from_first: bool = True
) -> tuple[Match | None, list[tuple[int, int]]]:
    """A group that has read so many copies on the source, and goes on behind so many records on the target."""
    asked: list[tuple[int, int]] = []

    def windows(records: list[int], at: int) -> Any:
        def found(places: Collection[At], _: object, most: tuple[int, int]) -> Windows:
            asked.append(most)
            return {place: window(records, at, most, from_first) for place in places}

        return found

    nothing = (lambda _: None, lambda _: None)
    written = OwnRecords(windows(copies, read), windows(own, passed), RULE, RULE, nothing, True)
    (match,) = written.matches([((T0, read), (T0, passed))])
    return match, asked


@pytest.mark.parametrize(
    ("copied", "read", "passed", "skipped", "again"),
    [
        (9, 4, 4, 0, 0),
        (9, 4, 6, 2, 0),
        (9, 4, 1, 0, 3),
        (4, 4, 6, 2, 0),  # not copied back yet
        (0, 0, 3, 3, 0),  # nothing is
        (900, 100, 600, 500, 0),  # farther apart than the first windows reach
        (900, 600, 100, 0, 500),
    ],
)
def test_what_is_skipped_and_what_is_read_again(copied: int, read: int, passed: int, skipped: int, again: int) -> None:
    own = list(range(max(copied, 10)))
    match, asked = compared(own[:copied], read, own, passed)
    assert match
    assert (match.skipped, match.read_again) == (skipped, again)
    assert asked[0] == NEAR
    assert (len(asked) > 2) == (abs(read - passed) > 100)


def test_where_nothing_of_both_is_known_nothing_is_said() -> None:
    assert compared([1, 2, 3], 2, [7, 8, 9], 2)[0] is None
    # Retention may have removed the copies.
    assert compared([], 0, [1, 2], 2, from_first=False)[0] is None
