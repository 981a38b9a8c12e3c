"""Errors of the policies contain everything that a user needs to act."""

from __future__ import annotations

import pytest

from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.groups.policies import (
    ActiveGroup,
    MultipleMappings,
    OtherMapping,
    ensure_none_active,
    ensure_one_mapping,
)
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.mapping.algebra.translate import TranslationState
from k2k_assets.translation.groups import Answer

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("copy.orders", 3)
ANSWER = Answer(TARGET, 50, TranslationState.EXACT, ((SOURCE, CommittedOffset(40)),))


def decision(word: CommitDecision, commit: bool = False, held: CommittedOffset | None = None) -> GroupDecision:
    row = Row(TARGET, ANSWER.sources, 50, held, word, commit)
    return GroupDecision("billing", {TARGET: 50} if commit else {}, [row])


def test_an_active_group() -> None:
    """It stops the mapper if the policy is `fail`, and the error names group, both offsets and the way out."""
    with pytest.raises(ActiveGroup) as raised:
        ensure_none_active(
            [decision(CommitDecision.EXACT), decision(CommitDecision.ACTIVE, held=CommittedOffset(45))], "fail"
        )
    message = str(raised.value)
    for part in ("billing", "copy.orders-3", "offset 50", "orders-3 at offset 40", "offset 45", "ignore"):
        assert part in message
    assert isinstance(raised.value, K2KError)
    ensure_none_active([decision(CommitDecision.ACTIVE)], "ignore")


def test_a_group_that_was_found_active_only_when_it_was_committed() -> None:
    with pytest.raises(ActiveGroup, match="it holds nothing"):
        ensure_none_active([decision(CommitDecision.EXACT, commit=True)], "fail", ["billing"])
    ensure_none_active([decision(CommitDecision.EXACT, commit=True)], "fail", ["another"])
    ensure_none_active([decision(CommitDecision.EXACT, commit=True)], "ignore", ["billing"])


def test_many_sources_are_cut_short() -> None:
    sources = tuple((TopicPartition("t", p), CommittedOffset(p)) for p in range(9))
    row = Row(TARGET, sources, 5, None, CommitDecision.ACTIVE, False)
    with pytest.raises(ActiveGroup, match="t-2 at offset 2 and 6 more"):
        ensure_none_active([GroupDecision("g", {}, [row])], "fail")


def test_two_mappings() -> None:
    """Two answers for one position stop the mapper if the policy is `fail`; the error names both."""
    other = OtherMapping("k2k.other", SOURCE, 40, TopicPartition("elsewhere", 0), 7)
    with pytest.raises(MultipleMappings) as raised:
        ensure_one_mapping("billing", ANSWER, [other], "fail")
    message = str(raised.value)
    for part in ("billing", "orders-3", "offset 40", "copy.orders-3 offset 50", "elsewhere-0 offset 7", "k2k.other"):
        assert part in message
    assert "offsetMapping.topic" in message
    ensure_one_mapping("billing", ANSWER, [other], "ignore")
    ensure_one_mapping("billing", ANSWER, [], "fail")
