"""Whether records of a topic wait for too long, from made-up lags."""

from __future__ import annotations

import pytest

from k2k_assets.control.pause_records import Pause
from k2k_assets.status.freshness import check_keeps_up
from k2k_assets.status.lag import PartitionLag
from k2k_assets.verification.verdict import Judgement, Verdict

LIMIT = 60.0
QUIET, IN_TIME, LATE = PartitionLag(5, 5, 0.0), PartitionLag(5, 9, 60.0), PartitionLag(5, 9, 60.1)
VERY_LATE, UNKNOWN = PartitionLag(2, 9, 7200.0), PartitionLag(5, None, None)


def judged(*lags: PartitionLag) -> Verdict | None:
    """The verdict on partitions with these lags."""
    return check_keeps_up("orders", dict(enumerate(lags)), LIMIT)


@pytest.mark.parametrize("lags", [(), (QUIET, QUIET), (QUIET, IN_TIME)])
def test_a_topic_is_in_time_where_no_record_waits_too_long(lags: tuple[PartitionLag, ...]) -> None:
    verdict = judged(*lags)
    assert verdict == Verdict(
        Judgement.PASSED, "no record of orders waits for longer than 1 min 0 s", {"partitions": len(lags)}
    )


def test_the_latest_partitions_come_first() -> None:
    verdict = judged(QUIET, LATE, VERY_LATE, UNKNOWN)
    assert verdict is not None
    assert (verdict.judgement, verdict.counts) == (Judgement.FAILED, {"partitions": 4, "late_partitions": 2})
    assert [offender.what for offender in verdict.offenders] == [
        "orders-2 is 2 h 0 min behind, lag 7",
        "orders-1 is 1 min 0 s behind, lag 4",
    ]


def test_words_stay_while_the_answer_does() -> None:
    """A verdict with other words is another event in Dagster's database."""
    later, earlier = judged(VERY_LATE), judged(LATE)
    assert later is not None
    assert earlier is not None
    assert later.summary == earlier.summary


def test_what_is_not_known_is_no_verdict() -> None:
    assert judged(QUIET, UNKNOWN) is None


def test_a_paused_topic_is_not_judged() -> None:
    verdict = check_keeps_up("orders", {0: VERY_LATE}, LIMIT, Pause("somebody", 0, "month end"))
    assert verdict is not None
    assert verdict.passed
    assert "paused" in verdict.summary
