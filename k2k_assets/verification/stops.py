"""Check: a topic is copied on. It fails while one of its partitions is stopped, whoever stopped it: Dagster or `k2k`.

Why is in the commit log: a slot that cannot go on with a partition releases it with its reason, the range, and what to
do. Copying on, or an override by hand, takes that away.
"""

from __future__ import annotations

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.core.stops.reason import StopReason, Stops, render, render_topic
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.verification.verdict import SHOWN, Judgement, Offender, Verdict


def check_copies_on(topic: str, log: CommitLog, seen: Stops | None = None) -> Verdict:
    """Whether no partition of a topic is stopped; a doubt while nothing of it is committed.

    Args:
        topic: Source topic.
        log: The commit log.
        seen: Why a run has just stopped the topic; a partition that never had a position cannot say so in the log.
    """
    known = {tp for tp in (*log.positions, *log.unreadable) if tp.topic == topic}
    stopped = {tp: reason for tp, reason in log.stopped.items() if tp.topic == topic}
    counts = {"partitions": len(known), "stopped_partitions": len(stopped)}
    if not stopped:
        if seen:
            return Verdict(Judgement.FAILED, render_topic(topic, seen), counts)
        if not known:
            return Verdict(Judgement.WARNED, f"nothing of {topic} is committed yet", counts)
        return Verdict(Judgement.PASSED, f"no partition of {topic} is stopped", counts)
    offenders = [_offender(tp, reason, log) for tp, reason in stopped.items()]
    summary = f"{len(offenders)} of {len(known)} partitions are stopped: {offenders[0].what}"
    return Verdict(Judgement.FAILED, summary, counts, offenders[:SHOWN])


def _offender(tp: TopicPartition, reason: StopReason, log: CommitLog) -> Offender:
    record = log.positions.get(tp)
    position, target = (record.position, record.target_topic) if record else (None, None)
    return Offender(f"{tp}: {render(reason)}", tp.topic, tp.partition, position, target)
