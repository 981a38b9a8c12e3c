"""Which positions are committed and which are left alone, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from k2k_assets.control.group_versions import Version
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Rules, decide_group
from k2k_assets.kafka.groups import CommittedOffset, Ends, GroupKind, GroupState
from k2k_assets.mapping.algebra.translate import TranslationState
from k2k_assets.translation.groups import Answer

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("copy.orders", 3)
NOW = Version(7, 100, "here")
OURS = NOW.metadata("k2k_")
EMPTY = GroupState(GroupKind.CLASSIC, False, "empty")
LOG, STANDS = Ends(10, 90), CommittedOffset(40)
ACTIVE = GroupState(GroupKind.CONSUMER, True, "stable")


def decided(
    offset: int = 50,
    state: TranslationState = TranslationState.EXACT,
    held: CommittedOffset | None = None,
    ends: Ends | None = LOG,
    group: GroupState | None = EMPTY,
    source: CommittedOffset = STANDS,
    translated: bool = False,
    **rules: Any,
) -> GroupDecision:
    answer = Answer(TARGET, offset, state, ((SOURCE, source),), translated)
    return decide_group(
        "billing",
        [answer],
        {TARGET: held} if held else {},
        {TARGET: ends} if ends else {},
        Rules(NOW, "k2k_", **rules),
        group,
    )


def said(decision: GroupDecision) -> tuple[CommitDecision, int | None]:
    """The word, and what is committed; None: nothing."""
    (row,) = decision.rows
    assert row.commit == (TARGET in decision.commits)
    assert not row.commit or decision.commits[TARGET] == row.offset
    return row.decision, decision.commits.get(TARGET)


@pytest.mark.parametrize(
    ("given", "word", "committed"),
    [
        ({}, "exact", 50),
        ({"group": None}, "exact", 50),
        ({"state": TranslationState.AHEAD}, "ahead", 50),
        ({"offset": 5}, "expired", 10),
        ({"offset": 95, "state": TranslationState.AHEAD}, "ahead", 90),
        ({"offset": 90}, "exact", 90),
        ({"offset": 0, "ends": Ends(0, 0)}, "exact", 0),
        ({"offset": -1, "state": TranslationState.UNKNOWN}, "unknown", None),
        ({"offset": -1, "state": TranslationState.NOT_REPLICATED}, "not replicated", None),
        ({"offset": -1, "state": TranslationState.NOT_REPLICATED, "not_begun": {SOURCE}}, "waiting", None),
        ({"ends": None}, "not replicated", None),
        ({"translated": True}, "translation", None),
        ({"group": GroupState(GroupKind.OTHER, False, "unknown")}, "not handled", None),
    ],
)
def test_translations(given: dict[str, Any], word: str, committed: int | None) -> None:
    """What each state of a translated position leads to, where the target group holds nothing."""
    assert said(decided(**given)) == (word, committed)


@pytest.mark.parametrize(
    ("held", "given", "word", "committed"),
    [
        (CommittedOffset(30, "k2k_7.99"), {}, "exact", 50),
        (CommittedOffset(70, "k2k_7.99"), {}, "exact", 50),  # the source was rewound
        (CommittedOffset(70, "k2k_6.999"), {}, "exact", 50),
        (CommittedOffset(70, OURS), {}, "exact", 50),
        (CommittedOffset(30, "k2k_7.101"), {}, "older", None),
        (CommittedOffset(30, "k2k_8.1"), {}, "older", None),
        (CommittedOffset(50, "k2k_8.1"), {}, "older", None),
        (CommittedOffset(30, "k2k_8.1"), {"guard": False}, "exact", 50),
        (CommittedOffset(50, "k2k_7.99"), {}, "exact", None),
        (CommittedOffset(50, "k2k_7.99"), {"state": TranslationState.AHEAD}, "ahead", None),
        (CommittedOffset(10, "k2k_7.99"), {"offset": 5}, "expired", None),
        (CommittedOffset(30), {}, "foreign", None),
        (CommittedOffset(50), {}, "foreign", None),
        (CommittedOffset(30, "streams:xyz"), {}, "foreign", None),
        (CommittedOffset(30), {"guard": False}, "foreign", None),
        (CommittedOffset(30), {"foreign": "overwrite"}, "exact", 50),
        (CommittedOffset(50), {"foreign": "overwrite"}, "exact", None),
        (CommittedOffset(30, "k2k_8.1"), {"foreign": "overwrite"}, "older", None),
        (CommittedOffset(30, "k2k_7.99@here"), {}, "exact", 50),
        (CommittedOffset(30, "k2k_8.1@here"), {}, "older", None),
        (CommittedOffset(30, "k2k_7.99@there"), {}, "another cluster", None),
        (CommittedOffset(50, "k2k_8.1@there"), {"guard": False}, "another cluster", None),
        (CommittedOffset(30, "k2k_8.1@there"), {"foreign": "overwrite"}, "exact", 50),
        (CommittedOffset(30, "k2k_7.99"), {"offset": -1, "state": TranslationState.UNKNOWN}, "unknown", None),
    ],
)
def test_what_is_held(held: CommittedOffset, given: dict[str, Any], word: str, committed: int | None) -> None:
    """What the commit that a target group holds already leads to: older, foreign, or ours to replace."""
    assert said(decided(held=held, **given)) == (word, committed)


@pytest.mark.parametrize(
    ("held", "given", "word"),
    [
        (None, {}, "active"),
        (CommittedOffset(30, "k2k_7.99"), {}, "active"),
        (CommittedOffset(30), {"foreign": "overwrite"}, "active"),
        # Nothing would be committed anyway.
        (CommittedOffset(50, "k2k_7.99"), {}, "exact"),
        (CommittedOffset(50, "k2k_7.99"), {"renew_before": 100}, "exact"),
        (CommittedOffset(30), {}, "foreign"),
        (None, {"offset": -1, "state": TranslationState.UNKNOWN}, "unknown"),
    ],
)
def test_active_groups_are_left_alone(held: CommittedOffset | None, given: dict[str, Any], word: str) -> None:
    assert said(decided(held=held, group=ACTIVE, **given)) == (word, None)


@pytest.mark.parametrize(("before", "committed"), [(0, None), (99, None), (100, 50)])
def test_what_may_soon_expire_is_committed_again(before: int, committed: int | None) -> None:
    assert said(decided(held=CommittedOffset(50, "k2k_6.99"), renew_before=before)) == ("exact", committed)


def test_an_applications_metadata_is_reported() -> None:
    (row,) = decided(source=CommittedOffset(40, "AQAAAZ")).rows
    assert (row.metadata, row.decision, row.commit) == ("AQAAAZ", "exact", True)


def test_partitions_are_decided_one_by_one() -> None:
    targets = [TopicPartition("t", p) for p in range(4)]
    answers = [Answer(tp, 5, TranslationState.EXACT, ((tp, CommittedOffset(5)),)) for tp in targets[:3]]
    answers.append(Answer(targets[3], -1, TranslationState.UNKNOWN, ((targets[3], CommittedOffset(5)),)))
    held = {
        targets[0]: CommittedOffset(4, "k2k_7.1"),
        targets[1]: CommittedOffset(5, "k2k_7.1"),
        targets[2]: CommittedOffset(9),
    }
    decision = decide_group("g", answers, held, {tp: Ends(0, 9) for tp in targets}, Rules(NOW, "k2k_"))
    assert decision.commits == {targets[0]: 5}
    assert [row.decision for row in decision.rows] == ["exact", "exact", "foreign", "unknown"]
    assert [row.on_target for row in decision.rows] == [*held.values(), None]
