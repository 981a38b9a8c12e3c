"""Coverage against the commit log: no hole, no end before the position, no mapping without a position."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.index.manifest import Lost, NotedPosition, Pruned
from k2k_assets.verification.coverage import CoveredRow, check_coverage
from k2k_assets.verification.verdict import Judgement, Verdict

_TP = TopicPartition("orders", 0)


_LOST = Lost(partition=2, start=0, end=40, before_first_read=True)


def _check(
    *ranges: tuple[int, int],
    position: int,
    now: int | None = None,
    records: int = 1,
    lost: tuple[Lost, ...] = (),
    began: int | None = None,
    pruned: tuple[Pruned, ...] = (),
) -> Verdict:
    return check_coverage(
        [CoveredRow(*_TP[:1], "id", _TP.partition, *covered) for covered in ranges],
        [
            NotedPosition(
                topic="orders", partition=0, source_topic_id="id", position=position, records=records, began=began
            )
        ],
        {_TP: position if now is None else now},
        lost,
        pruned,
    )


def _pruned(before: int, topic_id: str = "id") -> tuple[Pruned, ...]:
    return (Pruned(topic="orders", partition=0, source_topic_id=topic_id, before=before),)


def test_of_an_index_whose_build_was_killed_nothing_is_known() -> None:
    verdict = check_coverage([CoveredRow("orders", "id", 0, 0, 500)], [], {_TP: 1000}, ())
    assert verdict.judgement is Judgement.WARNED
    assert "the index was not built to its end" in verdict.summary


def test_an_unbroken_range_up_to_the_position_is_good() -> None:
    verdict = _check((100, 700), (700, 1000), position=1000)
    assert verdict.passed
    assert verdict.counts["positions_covered"] == 900


@pytest.mark.parametrize(
    ("ranges", "position", "says"),
    [
        (((0, 700), (800, 1000)), 1000, "no mapping from 700 to 800"),
        (((0, 700), (701, 1000)), 1000, "no mapping from 700 to 701"),
        (((0, 999),), 1000, "mapped up to 999, but committed at 1000"),
        (((0, 1001),), 1000, "mapped up to 1001, but committed only at 1000"),
        (((0, 700), (600, 1000)), 1000, "mapped twice from 600 to 700"),
        ((), 1000, "nothing of it is mapped"),
    ],
)
def test_what_does_not_agree_fails(ranges: tuple[tuple[int, int], ...], position: int, says: str) -> None:
    verdict = _check(*ranges, position=position)
    assert verdict.judgement is Judgement.FAILED
    assert says in verdict.offenders[0].what
    assert (verdict.offenders[0].topic, verdict.offenders[0].partition) == _TP


def test_copying_may_have_gone_on_since_the_index_was_read() -> None:
    assert _check((0, 1000), position=1000, now=5000).passed


def test_a_position_may_have_been_set_back_while_the_index_was_built() -> None:
    assert _check((0, 500), position=1000, now=500).passed
    assert _check((0, 1200), position=1000, now=5000).passed


def test_a_partition_of_which_nothing_was_copied_needs_no_mapping() -> None:
    verdict = _check(position=500, records=0)
    assert verdict.passed
    assert verdict.counts["nothing_copied"] == 1


def test_a_mapping_without_a_position_fails() -> None:
    verdict = check_coverage([CoveredRow("orders", "id", 3, 0, 10)], [], {}, [])
    assert verdict.judgement is Judgement.FAILED
    assert "no committed position" in verdict.summary


def test_a_topic_that_was_created_anew_is_judged_by_its_own_mappings() -> None:
    rows = [CoveredRow("orders", "old", 0, 0, 5000), CoveredRow("orders", "new", 0, 0, 10)]
    position = NotedPosition(topic="orders", partition=0, source_topic_id="new", position=10, records=10)
    assert check_coverage(rows, [position], {_TP: 10}, []).passed


def test_lost_mapping_records_leave_a_doubt() -> None:
    verdict = _check((100, 1000), position=1000, lost=(_LOST,))
    assert verdict.judgement is Judgement.WARNED
    assert "mapping partition 2 from 0 to 40" in verdict.summary
    assert _check((100, 1000), position=1000, lost=(_LOST,), began=100).passed, "they were of others"


def test_a_beginning_that_was_lost_fails() -> None:
    verdict = _check((100, 1000), position=1000, lost=(_LOST,), began=30)
    assert verdict.judgement is Judgement.FAILED
    assert "orders-0 has no mapping from 30, where copying began, to 100" in verdict.summary
    assert verdict.offenders[0].source_offset == 30


def test_a_beginning_that_was_never_mapped_is_a_doubt() -> None:
    verdict = _check((100, 1000), position=1000, began=30)
    assert verdict.judgement is Judgement.WARNED
    assert "because they were off then, or later for a while" in verdict.summary
    assert _check((30, 1000), position=1000, began=30).passed
    assert _check((10, 1000), position=1000, began=30).passed, "copied again from an earlier position"


def test_what_was_pruned_is_not_missing() -> None:
    assert _check((100, 1000), position=1000, began=30, lost=(_LOST,), pruned=_pruned(100)).passed
    for notes in (_pruned(90), _pruned(100, "former")):
        verdict = _check((100, 1000), position=1000, began=30, lost=(_LOST,), pruned=notes)
        assert verdict.judgement is Judgement.FAILED


def test_a_later_generation_that_copied_nothing_does_not_hide_what_was_copied_before() -> None:
    assert _check(position=500, records=0, began=500).passed
    assert _check(position=500, records=0, began=0).judgement is Judgement.FAILED
