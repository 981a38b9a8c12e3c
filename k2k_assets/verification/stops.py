"""Check: a topic is copied on. It fails while one of its partitions is stopped, by a run of Dagster or by `k2k`.

The stop reason comes from the commit log: a slot that cannot go on with a partition releases it with its reason, which
has the offsets and says what to do, and notes the reason where the partition has no position. A later commit or an
override removes it.
"""

from __future__ import annotations

from itertools import islice

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.pause_records import Pause
from k2k_assets.core.stops.reason import StopReason, Stops, render, render_topic
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.verification.verdict import SHOWN, Judgement, Offender, Verdict


def check_copies_on(topic: str, log: CommitLog, seen: Stops | None = None, paused: Pause | None = None) -> Verdict:
    """Checks that no partition of a topic is stopped; doubtful while the topic has no committed position.

    A paused topic passes, and the summary says who paused it.

    Args:
        topic: Source topic.
        log: The commit log, or what `CommitLog.by_topic` has of it, where many topics are checked.
        seen: Stop reasons that a run has just reported, for when the log has none.
        paused: The topic's pause; None if it is not paused.
    """
    known = {tp for tp in (*log.positions, *log.unreadable, *log.noted) if tp.topic == topic}
    stopped = {tp: reason for tp, reason in log.stopped.items() if tp.topic == topic}
    counts = {"partitions": len(known), "stopped_partitions": len(stopped)}
    if not stopped:
        if seen:
            return Verdict(Judgement.FAILED, render_topic(topic, seen), counts)
        if paused:
            return Verdict(Judgement.PASSED, f"{topic} is {paused}. k2k-tool resume lets it be copied on", counts)
        if not known:
            return Verdict(Judgement.WARNED, f"nothing of {topic} is committed yet", counts)
        return Verdict(Judgement.PASSED, f"no partition of {topic} is stopped", counts)
    offenders = [_offender(tp, reason, log) for tp, reason in islice(stopped.items(), SHOWN)]
    summary = f"{len(stopped)} of {plural(len(known), 'partition is', 'partitions are')} stopped: {offenders[0].what}"
    return Verdict(Judgement.FAILED, summary, counts, offenders)


def _offender(tp: TopicPartition, reason: StopReason, log: CommitLog) -> Offender:
    record = log.positions.get(tp)
    position, target = (record.position, record.target_topic) if record else (None, None)
    return Offender(f"{tp}: {render(reason)}", tp.topic, tp.partition, position, target)
