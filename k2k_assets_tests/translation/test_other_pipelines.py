"""A target topic of several pipelines: who reads topics of more than one of them gets no answer there."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.groups import CommittedOffset, GroupOffsets
from k2k_assets.mapping.algebra.translate import TranslationState
from k2k_assets.translation.groups import Answer
from k2k_assets.translation.other_pipelines import IdentifiedTopic, OtherPipeline, unknown_beside_others, without_others

OWN, THEIRS = TopicPartition("orders", 0), TopicPartition("payments", 1)
ALL, ELSEWHERE = TopicPartition("all", 0), TopicPartition("audit", 0)
AT = CommittedOffset(5)
INTO = IdentifiedTopic("all", "id-of-all")
OTHERS = {INTO: {"payments": OtherPipeline("k2k.pay", "pay")}}
IDS = {"all": "id-of-all", "audit": "id-of-audit"}


def answers() -> dict[str, list[Answer]]:
    return {"g": [Answer(each, 7, TranslationState.EXACT, ((OWN, AT),), again=2) for each in (ALL, ELSEWHERE)]}


@pytest.mark.parametrize(
    "group",
    [GroupOffsets("g", {OWN: AT, THEIRS: AT}), GroupOffsets("g", {OWN: AT}, frozenset([THEIRS]))],
    ids=["committed", "pending"],
)
def test_who_reads_both_gets_no_answer_where_both_go(group: GroupOffsets) -> None:
    found = answers()
    why = unknown_beside_others(found, {"g": group}, OTHERS, IDS)
    into_all, elsewhere = found["g"]
    assert (into_all.offset, into_all.state, into_all.again) == (-1, TranslationState.UNKNOWN, 0)
    assert elsewhere == answers()["g"][1]
    assert why.keys() == {ALL}
    for part in ("payments goes into all too", "pipeline pay (group.id k2k.pay)", "by one pipeline"):
        assert part in why[ALL]


def test_who_reads_only_one_of_them_keeps_its_answer() -> None:
    found = answers()
    assert unknown_beside_others(found, {"g": GroupOffsets("g", {OWN: AT})}, OTHERS, IDS) == {}
    assert found == answers()


def test_what_went_into_a_former_topic_of_this_name_is_not_in_todays() -> None:
    found = answers()
    group = GroupOffsets("g", {OWN: AT, THEIRS: AT})
    assert unknown_beside_others(found, {"g": group}, OTHERS, {"all": "another"}) == {}
    assert found == answers()


def test_positions_in_topics_of_others_are_left_out_of_the_translation() -> None:
    both = GroupOffsets("g", {OWN: AT, THEIRS: AT}, frozenset([THEIRS]))
    theirs = GroupOffsets("h", {THEIRS: AT})
    assert without_others({"g": both, "h": theirs}, OTHERS) == {"g": GroupOffsets("g", {OWN: AT})}
    assert without_others({"g": both}, {}) == {"g": both}


def test_beside_a_topic_that_may_not_be_seen_nothing_is_known_of_any_group() -> None:
    """Kafka leaves its partitions out of the positions of a group, so nobody sees that the group reads it."""
    found = answers()
    hidden = {INTO: {"payments": OTHERS[INTO]["payments"]._replace(is_hidden=True)}}
    why = unknown_beside_others(found, {"g": GroupOffsets("g", {OWN: AT})}, hidden, IDS)
    into_all, elsewhere = found["g"]
    assert (into_all.offset, into_all.state) == (-1, TranslationState.UNKNOWN)
    assert elsewhere == answers()["g"][1]
    assert why.keys() == {ALL}
    for part in ("pipeline pay (group.id k2k.pay)", "allow this client to Describe payments", "by one pipeline"):
        assert part in why[ALL]
    assert unknown_beside_others(answers(), {"g": GroupOffsets("g", {OWN: AT})}, hidden, {"all": "another"}) == {}
