"""Check: a topic is not further behind its source than `sync.freshness` allows. Pure.

It judges records that wait, not the age of the last copy: a topic to which nobody writes is never late.
"""

from __future__ import annotations

from collections.abc import Mapping

from k2k_assets.control.pause_records import Pause
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import duration
from k2k_assets.status.lag import PartitionLag
from k2k_assets.verification.verdict import SHOWN, Judgement, Offender, Verdict


def check_keeps_up(
    topic: str, lags: Mapping[int, PartitionLag], limit: float, paused: Pause | None = None
) -> Verdict | None:
    """Checks that no record of a topic waits for longer than it may.

    The summary has no number that changes by itself, so a verdict is another one only when the answer is.

    Args:
        topic: Source topic.
        lags: Lag of its partitions, by number.
        limit: `sync.freshness` in seconds.
        paused: The topic's pause; a paused topic passes.

    Returns:
        The verdict; None if it is not known, because a partition that may be late could not be read.
    """
    counts = {"partitions": len(lags)}
    if paused:
        return Verdict(Judgement.PASSED, f"{topic} is {paused}, so it is not judged", counts)
    late = {n: lag for n, lag in lags.items() if lag.seconds is not None and lag.seconds > limit}
    if late:
        worst = sorted(late.items(), key=lambda item: -(item[1].seconds or 0.0))
        offenders = [_offender(TopicPartition(topic, n), lag) for n, lag in worst[:SHOWN]]
        summary = (
            f"records of {topic} wait for longer than sync.freshness, {duration(limit)}. `k2k status -f FILE` shows "
            "where, and how fast it is copied"
        )
        return Verdict(Judgement.FAILED, summary, {**counts, "late_partitions": len(late)}, offenders)
    if any(lag.seconds is None for lag in lags.values()):
        return None
    return Verdict(Judgement.PASSED, f"no record of {topic} waits for longer than {duration(limit)}", counts)


def not_known(topic: str, limit: float, why: str) -> Verdict:
    """The doubt about a topic that passed, when nobody can tell any more.

    Args:
        topic: Source topic.
        limit: `sync.freshness` in seconds.
        why: The reason, in words.
    """
    return Verdict(
        Judgement.WARNED, f"whether records of {topic} wait for longer than {duration(limit)} is not known: {why}"
    )


def _offender(tp: TopicPartition, lag: PartitionLag) -> Offender:
    what = f"{tp} is {duration(lag.seconds or 0.0)} behind, lag {lag.offsets}"
    return Offender(what, tp.topic, tp.partition, lag.position)
