"""Check: the copy of a topic has the settings that it has to have. A difference is a doubt, and blocks nothing.

What differs, and how it is put right, is `k2k topics`' business (`topics/plan.py`); here it becomes verdicts.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection

from k2k_assets.core.errors import NotAllowed, Refused
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.topics.differences import Difference
from k2k_assets.topics.plan import TopicsPlan, plan_topics
from k2k_assets.verification.verdict import SHOWN, Judgement, Offender, Verdict

# Each costs a few calls: enough to find one topic among a thousand, not one call for each of a thousand.
_MOST_PLANS = 32


def check_topic_settings(
    pipeline: Pipeline, source: Cluster, target: Cluster, topics: Collection[str]
) -> dict[str, Verdict]:
    """Compares the settings of copies with what they have to be, with few calls for all of them.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        topics: Source topics.

    Returns:
        A verdict for each of the topics.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """
    verdicts: dict[str, Verdict] = {}
    left, plans = deque([sorted(topics)]), 0
    while left:
        some, plans = left.popleft(), plans + 1
        try:
            verdicts |= _verdicts(pipeline, plan_topics(pipeline, source, target, topics=some), some)
        except NotAllowed as error:
            # The settings of one topic that may not be seen are no reason to compare none.
            if len(some) > 1 and plans + len(left) + 2 <= _MOST_PLANS:
                left += [some[: len(some) // 2], some[len(some) // 2 :]]
            else:
                verdicts |= _not_compared(some, error)
        except Refused as error:
            verdicts |= _not_compared(some, error)
    return verdicts


def _not_compared(topics: Collection[str], error: Refused) -> dict[str, Verdict]:
    return {topic: Verdict(Judgement.WARNED, f"the settings cannot be compared: {error}") for topic in topics}


def _verdicts(pipeline: Pipeline, plan: TopicsPlan, topics: Collection[str]) -> dict[str, Verdict]:
    by_target: dict[str, list[Difference]] = defaultdict(list)
    for difference in plan.differences:
        by_target[difference.topic].append(difference)
    verdicts = {}
    for topic in topics:
        target_topic = pipeline.routing.target_if_any(topic) or ""
        if target_topic in plan.wanted:
            verdicts[topic] = _verdict(topic, target_topic, by_target[target_topic])
        else:
            verdicts[topic] = Verdict(Judgement.WARNED, f"the source has no topic {topic} any more")
    return verdicts


def _verdict(topic: str, target_topic: str, found: list[Difference]) -> Verdict:
    counts = {"differences": len(found)}
    if not found:
        return Verdict(Judgement.PASSED, f"{target_topic} has the settings that it has to have", counts)
    offenders = [Offender(str(each), topic, target_topic=target_topic) for each in found[:SHOWN]]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    advice = "`k2k topics plan -f FILE` shows what would be done about it"
    summary = f"{plural(len(found), 'difference')}: {found[0]}{more}. {advice}"
    return Verdict(Judgement.WARNED, summary, counts, offenders)
