"""What a content check reads from the index, without clusters."""

from __future__ import annotations

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import Beginning, Covered, Order, Target
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.portions import Portion, PortionPiece
from k2k_assets.verification.content.survey import _copied

SOURCE = SourcePartition("c", "s", "sid", 0)
TODAY, FORMER, ELSEWHERE = (Target(*target) for target in (("t", "2", 0), ("t", "1", 0), ("u", "1", 0)))


def _portion(number: int, target: Target) -> Portion:
    start, end, order = 10 * number, 10 * number + 10, Order(1, number)
    piece = PortionPiece(target, 0, 1, 10, start, Run(start, start, 10))
    return Portion(
        SOURCE, "s", "f", start, end, (Covered(start, end),), order, Beginning(1, 1, start), order, 0, 0, 1, (piece,)
    )


def _is_alone(*targets: Target) -> bool:
    return _copied([_portion(number, target) for number, target in enumerate(targets)], set()).one_to_one


def test_into_a_target_that_was_created_anew_it_is_alone() -> None:
    assert _is_alone(TODAY, TODAY)
    assert _is_alone(FORMER, FORMER, TODAY)


def test_where_the_routing_was_changed_and_changed_back_it_may_not_be_alone() -> None:
    """While it went elsewhere nobody looked at who else writes there."""
    assert _is_alone(TODAY, ELSEWHERE)
    assert not _is_alone(TODAY, ELSEWHERE, TODAY)


def test_into_several_partitions_or_beside_others_it_is_not_alone() -> None:
    assert not _is_alone(TODAY, TODAY._replace(partition=1))
    assert not _copied([_portion(0, TODAY)], {TODAY}).one_to_one
