"""Where other pipelines copy other topics of the same source into the same target topics.

```
 pipeline a   orders   ──┐
                         ├──> all      who reads both topics: each pipeline knows only its own records in `all`
 pipeline b   payments ──┘
```

The position that one of them finds may lie behind records of the other one that the group has not read. A source that
does not let a topic be seen does not tell either which groups read it: any of them may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.groups import GroupOffsets
from k2k_assets.mapping.algebra.translate import NO_OFFSET, TranslationState
from k2k_assets.translation.groups import Answer


class IdentifiedTopic(NamedTuple):
    """A target topic; after it was created anew under the same name, it is another one."""

    name: str
    topic_id: str


class OtherPipeline(NamedTuple):
    """A pipeline that copies a topic of the same source into a target topic.

    Attributes:
        group: Its `group.id`.
        name: Its name.
        is_hidden: Whether the topic may not be seen, so that nobody knows which groups read it.
    """

    group: str
    name: str
    is_hidden: bool = False


OtherSources = Mapping[IdentifiedTopic, Mapping[str, OtherPipeline]]
"""Source topics that others copy into a target topic, by target topic and source topic."""


def without_others(groups: Mapping[str, GroupOffsets], others: OtherSources) -> dict[str, GroupOffsets]:
    """Positions in the topics of this pipeline only; groups without any are left out.

    Args:
        groups: Positions in the topics of this pipeline and of others.
        others: The topics of others.
    """
    topics = {topic for of_target in others.values() for topic in of_target}
    if not topics:
        return dict(groups)
    own = {
        name: GroupOffsets(
            name,
            {tp: committed for tp, committed in group.offsets.items() if tp.topic not in topics},
            frozenset(tp for tp in group.unstable if tp.topic not in topics),
        )
        for name, group in groups.items()
    }
    return {name: group for name, group in own.items() if group.offsets or group.unstable}


def unknown_beside_others(
    answers: dict[str, list[Answer]],
    groups: Mapping[str, GroupOffsets],
    others: OtherSources,
    topic_ids: Mapping[str, str],
) -> dict[TopicPartition, str]:
    """Takes back the answers of groups that read, or may read, topics of others, in target topics that these go into.

    Args:
        answers: Answers by group, which are changed.
        groups: Positions in the topics of this pipeline and of others.
        others: The topics of others.
        topic_ids: Today's ids of the target topics.

    Returns:
        The target partitions of these answers, with the reason and what to do.
    """
    why: dict[TopicPartition, str] = {}
    for (target_topic, topic_id), sources in others.items():
        for group, of_group in answers.items() if topic_ids.get(target_topic) == topic_id else ():
            reads = {tp.topic for tp in (*groups[group].offsets, *groups[group].unstable)}
            if both := [topic for topic, each in sources.items() if each.is_hidden or topic in reads]:
                words = _words(target_topic, sorted(both), sources)
                answers[group] = [_unknown(each, target_topic) for each in of_group]
                why |= {each.target: words for each in of_group if each.target.topic == target_topic}
    return why


def _unknown(answer: Answer, target_topic: str) -> Answer:
    if answer.target.topic != target_topic:
        return answer
    return answer._replace(offset=NO_OFFSET, state=TranslationState.UNKNOWN, again=0)


def _words(target_topic: str, topics: Sequence[str], others: Mapping[str, OtherPipeline]) -> str:
    by = ", ".join(sorted({f"{others[topic].name} (group.id {others[topic].group})" for topic in topics}))
    read = "the group reads it"
    if hidden := ", ".join(topic for topic in topics if others[topic].is_hidden):
        read = (
            f"the group may read it: the source tells that to nobody who may not see {hidden}, so allow this client to "
            f"Describe {hidden} there. Where a group reads both"
        )
    return (
        f"{', '.join(topics)} goes into {target_topic} too, by pipeline {by}, and {read}: neither pipeline "
        "knows what of the other's the group has not read. Copy all that goes into one topic by one pipeline: it may "
        "have several pairs of source and sink"
    )
