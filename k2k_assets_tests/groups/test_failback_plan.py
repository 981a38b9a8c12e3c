"""Where groups continue when they return to the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.commit_record import EVERYWHERE
from k2k_assets.core.runs import Run, merge
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups import failback_plan
from k2k_assets.groups.failback_plan import BackRow, FailbackDecision, FailbackPlan, Pipe, plan_failback
from k2k_assets.groups.failback_view import _pipe
from k2k_assets.kafka.groups import CommittedOffset, Ends, GroupOffsets
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.translate import translate
from k2k_assets.pipeline.sections.routing import Routing, SinkTopic
from k2k_assets.translation.groups import CopiedAtCut
from k2k_assets.translation.log_ends import NOT_KNOWN

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
XA0, ALL0, ALL1 = TopicPartition("x.a", 0), TopicPartition("all", 0), TopicPartition("all", 1)
PREFIXED = Routing(topic=SinkTopic(prefix="x."), partition="source")
STATIC = Routing(topic=SinkTopic(static="all"), partition="source")
SPREAD = Routing(topic=SinkTopic(static="all"), partition="producer")
OURS = "k2k_1.1"

# The picture in `failback_plan`.
DRAWN = {XA0: [Run(0, 5, 4), Run(6, 10, 3)]}


def mapping(source: TopicPartition, end: int, runs: Mapping[TopicPartition, list[Run]], began: int = 0) -> PartitionMap:
    tables = {Target(tp.topic, "id", tp.partition): RunTable.of(found) for tp, found in runs.items()}
    return PartitionMap(SourcePartition("c", *source, "id"), began, (Covered(began, end),), tables)  # type: ignore[arg-type]


def pipe(routing: Routing, ends: Mapping[TopicPartition, Ends], *maps: PartitionMap) -> Pipe:
    by_source = {TopicPartition(m.source.topic, 0): m for m in maps}
    positions = {source: m.covered_end for source, m in by_source.items()}
    copied = CopiedAtCut(positions, ends, {tp.topic: "id" for tp in ends})
    return Pipe(by_source.__getitem__, routing, copied)


ONE = pipe(PREFIXED, {XA0: Ends(0, 14)}, mapping(A0, 9, DRAWN))


def planned(
    on_target: Mapping[TopicPartition, int | CommittedOffset],
    on_source: Mapping[TopicPartition, int | CommittedOffset] | None = None,
    by: Pipe = ONE,
    source_start: int = 0,
    source_end: int = 100,
    reverse: Pipe | None = None,
) -> list[FailbackPlan]:
    held, stands = (
        {tp: at if isinstance(at, CommittedOffset) else CommittedOffset(at) for tp, at in offsets.items()}
        for offsets in (on_target, on_source or {})
    )
    ends = {tp: Ends(source_start, source_end) for tp in (A0, B0)}
    groups = {"g": GroupOffsets("g", held)}, {"g": GroupOffsets("g", stands)}
    return plan_failback(*groups, by, ends, "k2k_", reverse)


def test_only_partitions_of_topics_that_a_group_reads_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers are stopped meanwhile: a thousand groups took minutes beside twenty thousand partitions."""
    sources = [TopicPartition(f"s{n}", 0) for n in range(9)]
    targets = {source: TopicPartition(f"x.s{n}", 0) for n, source in enumerate(sources)}
    maps = [mapping(source, 9, {target: [Run(0, 5, 9)]}) for source, target in targets.items()]
    many = pipe(PREFIXED, dict.fromkeys(targets.values(), Ends(0, 14)), *maps)
    looked_at: list[TopicPartition] = []
    row = failback_plan._Planner.row

    def noting(self: failback_plan._Planner, source: TopicPartition, *rest: Any) -> BackRow | None:
        looked_at.append(source)
        return row(self, source, *rest)

    monkeypatch.setattr(failback_plan._Planner, "row", noting)
    groups = {f"g{n}": GroupOffsets(f"g{n}", {targets[sources[n]]: CommittedOffset(7)}) for n in range(9)}
    plans = plan_failback(groups, {}, many, dict.fromkeys(sources, Ends(0, 100)), "k2k_")
    assert [plan.commits for plan in plans] == [{source: 2} for source in sources]
    assert looked_at == sources


@pytest.mark.parametrize(
    ("on_target", "on_source", "offset", "word"),
    [
        (12, 2, 8, "exact"),
        (12, None, 8, "exact"),
        (10, 2, 6, "exact"),
        (9, 2, 4, "exact"),  # before the marker: 3 was read, nothing else
        (5, 2, 0, "exact"),  # it went back on the target
        (13, 2, 9, "exact"),
        (14, 2, 9, "exact"),  # behind the last marker
        (7, 2, 2, "kept"),
        (10, 5, 5, "kept"),  # 4 and 5 were never copied
        (9, 6, 6, "kept"),
        (14, 17, 17, "kept"),  # it had read records on the source that were not copied yet
        (13, 17, 17, "kept"),
        (12, 17, 8, "exact"),  # but here it has not read 8 again
    ],
)
def test_one_to_one(on_target: int, on_source: int | None, offset: int, word: str) -> None:
    """A group goes back to the source as far as it has read on the target, unless it has read further there."""
    (plan,) = planned({XA0: on_target}, None if on_source is None else {A0: on_source})
    (row,) = plan.rows
    assert (row.offset, row.decision) == (offset, word)
    assert plan.commits == ({} if word == "kept" else {A0: offset})
    assert plan.returned == {XA0: on_target}


@pytest.mark.parametrize(
    ("on_target", "offset", "word"),
    [
        (0, 0, "exact"),
        (3, 3, "exact"),  # it has read none of the copies that came again
        (4, 3, "may be read again"),
        (5, 3, "may be read again"),
        (6, 4, "may be read again"),  # it has read 3 twice, and 4 once
        (7, 5, "exact"),
        (8, 6, "exact"),
        (9, 6, "may be read again"),  # records behind the last run were sent, and never mapped
    ],
)
def test_at_least_once_copies_that_nothing_maps_may_be_read_again(on_target: int, offset: int, word: str) -> None:
    """The copy crashed after it had sent 3 and 4, and sent them again: 0 1 2 (3 4) 3 4 5, and one more at the end."""
    known = mapping(A0, 6, {XA0: [Run(0, 0, 3), Run(3, 5, 3)]})
    careful = pipe(PREFIXED, {XA0: Ends(0, 9)}, known)
    careless = replace(careful, at_least_once={A0: EVERYWHERE})
    (plan,) = planned({XA0: on_target}, by=careless)
    assert [(row.offset, row.decision) for row in plan.rows] == [(offset, word)]
    assert plan.commits == {A0: offset}
    (plan,) = planned({XA0: on_target}, by=careful)
    assert [row.decision for row in plan.rows] == ["exact"], "exactly once only markers and aborted records lie between"


def test_copies_that_nothing_maps_may_be_read_again_where_they_are_spread() -> None:
    """0 to 3 are mapped; the copy crashed after it had sent 4 to 7, and sent them again."""
    runs = {ALL0: [Run(0, 0, 1), Run(2, 1, 1), Run(4, 4, 1), Run(6, 5, 1)]}
    runs |= {ALL1: [Run(1, 0, 1), Run(3, 1, 1), Run(5, 4, 1), Run(7, 5, 1)]}
    known = pipe(SPREAD, {ALL0: Ends(0, 6), ALL1: Ends(0, 6)}, mapping(A0, 8, runs))
    careless = replace(known, at_least_once={A0: EVERYWHERE})
    for on_target, word in (({ALL0: 2, ALL1: 2}, "exact"), ({ALL0: 4, ALL1: 4}, "may be read again")):
        for by, said in ((careless, word), (known, "exact")):
            (plan,) = planned(on_target, by=by)
            assert [(row.offset, row.decision) for row in plan.rows] == [(4, said)]


@pytest.mark.parametrize(
    ("runs", "below", "words"),
    [
        # 0 to 9 at least once, then a thousand transactions: of what lies between their copies all is markers.
        (
            [Run(0, 0, 10), *(Run(10 + 5 * n, 10 + 6 * n, 5) for n in range(1000))],
            10,
            {10: (10, "exact"), 15: (15, "exact"), 16: (15, "exact"), 6010: (5010, "exact")},
        ),
        # 0 1 2 (3 4) 3 4 at least once
        (
            [Run(0, 0, 3), Run(3, 5, 7), *(Run(10 + 5 * n, 13 + 6 * n, 5) for n in range(1000))],
            5,
            {3: (3, "exact"), 5: (3, "may be read again"), 6: (4, "may be read again"), 7: (5, "exact"),
             6013: (5010, "exact")},
        ),
    ],
)  # fmt: skip
def test_behind_what_was_copied_exactly_once_nothing_is_read_again(
    runs: list[Run], below: int, words: dict[int, tuple[int, str]]
) -> None:
    known = mapping(A0, 5010, {XA0: merge(runs)})
    by = replace(pipe(PREFIXED, {XA0: Ends(0, 6013)}, known), at_least_once={A0: below})
    for at, expected in words.items():
        (plan,) = planned({XA0: at}, by=by, source_end=6000)
        assert [(row.offset, row.decision) for row in plan.rows] == [expected]


def test_a_reverse_pipeline_of_another_topic_makes_no_position_exact() -> None:
    """Where no record comes back, only the pipeline's own mappings tell what may be read again."""
    known = mapping(A0, 8, {XA0: [Run(0, 0, 3), Run(3, 5, 5)]})
    careless = replace(pipe(PREFIXED, {XA0: Ends(0, 10)}, known), at_least_once={A0: EVERYWHERE})
    other = pipe(STATIC, {ALL0: Ends(0, 9)}, mapping(B0, 9, {ALL0: [Run(0, 0, 9)]}))
    for reverse in (None, other):
        (plan,) = planned({XA0: 5}, by=careless, reverse=reverse)
        assert [(row.offset, row.decision) for row in plan.rows] == [(3, "may be read again")]


def test_the_delivery_mode_is_the_one_at_the_cut() -> None:
    """A copy that is started anew at least once before the cut may have left copies below it."""
    noted: dict[TopicPartition, int] = {}

    def cut() -> CopiedAtCut:
        noted[A0] = 3
        return ONE.copied

    mappings: Any = SimpleNamespace(
        map_of=ONE.map_of, routing=PREFIXED, cut=cut, with_copies_at_least_once=lambda: dict(noted)
    )
    assert _pipe(mappings).at_least_once == {A0: 3}


@pytest.mark.parametrize(
    ("log_start", "left_at", "offset", "word"),
    [
        (0, 30, -1, "unknown"),  # 30 to 49 are on the source, and never were on the target
        (0, 50, 60, "exact"),
        (0, None, 60, "exact"),  # it has begun on the target
        (0, 70, 60, "exact"),  # it had read them, and went back on the target
        (50, 30, 60, "exact"),  # they were deleted before copying began
    ],
)
def test_a_copy_that_began_behind_records_of_the_source(
    log_start: int, left_at: int | None, offset: int, word: str
) -> None:
    began_late = replace(mapping(A0, 100, {XA0: [Run(50, 0, 50)]}, began=50), log_start=log_start)
    by = pipe(PREFIXED, {XA0: Ends(0, 50)}, began_late)
    (plan,) = planned({XA0: 10}, None if left_at is None else {A0: left_at}, by)
    assert [(row.offset, row.decision) for row in plan.rows] == [(offset, word)]


def test_what_another_tool_has_copied_was_on_the_target() -> None:
    adopted = replace(mapping(A0, 100, {XA0: [Run(50, 50, 50)]}, began=50), log_start=0, target_began=50)
    (plan,) = planned({XA0: 60}, {A0: 30}, pipe(PREFIXED, {XA0: Ends(0, 100)}, adopted))
    assert [(row.offset, row.decision) for row in plan.rows] == [(60, "exact")]


@pytest.mark.parametrize(
    ("left_at", "stands_at", "log_start", "offset", "word"),
    [
        (50, 110, 0, -1, "unknown"),  # 60 to 99 are on the source, and were read nowhere
        (50, 40, 0, 40, "exact"),  # it has not come as far on the target
        (80, 110, 0, -1, "unknown"),
        (100, 110, 0, 149, "exact"),  # it had read them before it left
        (70, 60, 0, 70, "kept"),  # it has read nothing on the target since
        (50, 110, 100, 149, "exact"),  # they are deleted
        (50, 110, 90, -1, "unknown"),
        (None, 110, 0, 149, "exact"),  # it has begun on the target
    ],
)
def test_a_copy_that_went_on_behind_records_of_the_source(
    left_at: int | None, stands_at: int, log_start: int, offset: int, word: str
) -> None:
    """The target was truncated at 60 of 100, and the copy went on at 100 by hand."""
    known = mapping(A0, 150, {XA0: [Run(0, 0, 60), Run(100, 61, 50)]})
    by = pipe(PREFIXED, {XA0: Ends(0, 111)}, replace(known, skipped=(Covered(60, 100),)))
    on_source = None if left_at is None else {A0: left_at}
    (plan,) = planned({XA0: stands_at}, on_source, by, source_start=log_start, source_end=150)
    assert [(row.offset, row.decision) for row in plan.rows] == [(offset, word)]


@pytest.mark.parametrize(
    ("log", "offset", "word"),
    [
        ({A0: 100}, 6, "exact"),
        ({A0: 4}, 4, "exact"),
        ({A0: 0}, 0, "exact"),
        ({A0: NOT_KNOWN}, -1, "unknown"),
        ({}, -1, "unknown"),  # its leader is gone since it was asked for its end
    ],
)
def test_a_source_that_was_cut_off(log: Mapping[TopicPartition, int], offset: int, word: str) -> None:
    """What lies behind the cut-off today nobody has read on the target; where nobody can tell, nothing is written."""
    cut_off = replace(ONE, copied=replace(ONE.copied, source_logs=log))
    (plan,) = planned({XA0: 10}, by=cut_off)
    assert [(row.offset, row.decision) for row in plan.rows] == [(offset, word)]
    assert plan.commits == ({A0: offset} if offset >= 0 else {})


@pytest.mark.parametrize(
    ("on_target", "read_to", "row"),
    [
        ({XA0: 2}, {}, (5, "kept")),
        ({XA0: 2}, {A0: {0: 3}}, (5, "exact")),  # what it has read there says nothing of today's log
        ({XA0: 2, ALL0: 1}, {}, (5, "kept")),
        ({XA0: 2, ALL0: 1}, {A0: {0: 3}}, (-1, "unknown")),  # 1 and 2 are read nowhere
    ],
)
def test_what_was_read_of_a_former_log_of_the_source_counts_as_unread(
    on_target: dict[TopicPartition, int], read_to: Mapping[TopicPartition, Mapping[int, int]], row: tuple[int, str]
) -> None:
    by = pipe(PREFIXED, {XA0: Ends(0, 4)}, mapping(A0, 7, {ALL0: [Run(0, 0, 3)], XA0: [Run(3, 0, 4)]}))
    by = replace(by, copied=replace(by.copied, read_to=read_to))
    (plan,) = planned(on_target, {A0: CommittedOffset(5, "", 0)}, by)
    assert [(each.offset, each.decision) for each in plan.rows] == [row]
    assert plan.rows[0].on_source == CommittedOffset(5, "", 0)


def test_our_own_commits_are_not_progress() -> None:
    """The group never consumed on the target: its position on the source may be newer than what is held there."""
    (plan,) = planned({XA0: CommittedOffset(7, OURS)}, {A0: 8})
    assert [row.decision for row in plan.rows] == [FailbackDecision.TRANSLATION]
    assert (plan.commits, plan.returned) == ({}, {})


def test_groups_without_a_replicated_topic_are_left_out() -> None:
    assert planned({TopicPartition("other", 0): 3}) == []


def test_a_record_that_the_source_has_deleted() -> None:
    (plan,) = planned({XA0: 7}, source_start=4)
    assert (plan.rows[0].offset, plan.rows[0].decision) == (4, "expired")


def test_what_is_not_proven_is_left_alone() -> None:
    holes = PartitionMap(
        SourcePartition("c", "a", "id", 0), 0, (Covered(0, 4), Covered(6, 9)), mapping(A0, 9, DRAWN).runs
    )
    by = pipe(PREFIXED, {XA0: Ends(0, 14)}, holes)
    assert [planned({XA0: at}, by=by)[0].rows[0].decision for at in (8, 11)] == ["exact", "exact"]
    assert planned({XA0: 0}, by=by)[0].rows[0].decision in ("exact", "unknown")
    late = pipe(PREFIXED, {XA0: Ends(0, 14)}, PartitionMap(holes.source, None, (Covered(6, 9),), {
        Target("x.a", "id", 0): RunTable.of([Run(6, 10, 3)])}))  # fmt: skip
    (plan,) = planned({XA0: 7}, {A0: 2}, by=late)
    assert (plan.rows[0].decision, plan.commits) == ("unknown", {})


def test_several_sources_in_one_partition() -> None:
    by = pipe(
        STATIC,
        {ALL0: Ends(0, 6)},
        mapping(A0, 3, {ALL0: [Run(0, 0, 2), Run(2, 4, 1)]}),
        mapping(B0, 2, {ALL0: [Run(0, 2, 2)]}),
    )
    (plan,) = planned({ALL0: 3}, {A0: 0, B0: 1}, by=by)
    assert [(row.source, row.offset, row.decision) for row in plan.rows] == [(A0, 2, "exact"), (B0, 1, "kept")]
    assert plan.returned == {ALL0: 3}


def test_a_source_that_was_spread() -> None:
    by = pipe(
        SPREAD,
        {ALL0: Ends(0, 3), ALL1: Ends(0, 3)},
        mapping(A0, 5, {ALL0: [Run(0, 0, 1), Run(2, 1, 1)], ALL1: [Run(1, 0, 1), Run(3, 1, 2)]}),
    )
    (plan,) = planned({ALL0: 2, ALL1: 1}, {A0: 1}, by=by)
    assert [(row.offset, row.decision) for row in plan.rows] == [(3, "exact")]
    (plan,) = planned({ALL0: 2}, {A0: 1}, by=by)
    assert plan.commits == {}  # it has read nothing of the other partition: 1 is the first unread record
    assert plan.rows[0].decision == "kept"


def test_a_source_that_was_spread_under_another_routing() -> None:
    """Copied with `partition: producer` up to 4, with `partition: source` since: what went to the other one counts."""
    runs = {ALL0: [Run(0, 0, 1), Run(2, 1, 1), Run(4, 2, 2)], ALL1: [Run(1, 0, 1), Run(3, 1, 1)]}
    by = pipe(STATIC, {ALL0: Ends(0, 4), ALL1: Ends(0, 2)}, mapping(A0, 6, runs))
    for on_target, offset in (
        ({ALL0: 4, ALL1: 0}, 1),
        ({ALL0: 4, ALL1: 1}, 3),
        ({ALL0: 3, ALL1: 2}, 5),
        ({ALL0: 4}, 1),
    ):
        (plan,) = planned(on_target, by=by)
        assert [(row.offset, row.decision) for row in plan.rows] == [(offset, "exact")]


@pytest.mark.parametrize(
    ("on_target", "on_source", "row"),
    [
        ({XA0: 2, ALL0: 1}, 1, (-1, "unknown")),  # 1 and 2 are read nowhere
        ({XA0: 2}, 1, (5, "exact")),  # it does not read that topic
        ({XA0: 2, ALL0: 3}, 1, (5, "exact")),
        ({XA0: 2, ALL0: 1}, 3, (5, "exact")),  # read on the source
        ({XA0: 2, ALL1: 9}, None, (-1, "unknown")),
        ({ALL0: 1}, 1, None),
    ],
)
def test_a_source_that_went_to_another_topic_under_another_routing(
    on_target: dict[TopicPartition, int], on_source: int | None, row: tuple[int, str] | None
) -> None:
    """Copied to `all` up to 3, to a topic of its own since: the group has read some of both."""
    runs = {ALL0: [Run(0, 0, 3)], XA0: [Run(3, 0, 4)]}
    by = pipe(PREFIXED, {XA0: Ends(0, 4)}, mapping(A0, 7, runs))
    plans = planned(on_target, None if on_source is None else {A0: on_source}, by=by)
    assert [(r.offset, r.decision) for plan in plans for r in plan.rows] == ([row] if row else [])


@pytest.mark.parametrize(
    ("on_source", "source_start", "row"),
    [
        (1, 0, (-1, "unknown")),  # 1 and 2 are read nowhere
        (None, 0, (-1, "unknown")),
        (1, 2, (-1, "unknown")),
        (3, 0, (5, "exact")),  # read on the source
        (1, 3, (5, "exact")),  # the source has deleted them
    ],
)
def test_a_source_that_went_to_a_former_topic_of_the_same_name(
    on_source: int | None, source_start: int, row: tuple[int, str]
) -> None:
    """The target topic was deleted and created anew when 3 were copied, and copying went on at 3."""
    known = mapping(A0, 7, {XA0: [Run(3, 0, 4)]})
    former = replace(known, runs={Target("x.a", "old id", 0): RunTable.of([Run(0, 0, 3)]), **known.runs})
    by = pipe(PREFIXED, {XA0: Ends(0, 4)}, former)
    (plan,) = planned({XA0: 2}, None if on_source is None else {A0: on_source}, by, source_start)
    assert [(each.offset, each.decision) for each in plan.rows] == [row]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(0, 30))
def test_there_and_back_changes_nothing(gaps: list[int], position: int) -> None:
    """A group that reads nothing on the target keeps its position, wherever it stands."""
    runs, source, target = [], 0, 0
    for gap in gaps:
        runs.append(Run(source + gap, target + 1, 2))
        source, target = source + gap + 2, target + 3
    own = mapping(A0, source, {XA0: runs})
    by = pipe(PREFIXED, {XA0: Ends(0, target + 1)}, own)
    there = int(translate(own, Target("x.a", "id", 0), np.array([position]), floor=0).offsets[0])
    (plan,) = planned({XA0: there}, {A0: position}, by=by)
    assert (plan.rows[0].decision, plan.rows[0].offset) == ("kept", position)


def test_with_a_reverse_pipeline_what_was_written_there_counts_too() -> None:
    """here: a0 a1 | b0' b1' |, there: a0' a1' | b0 b1: the group has read b0 there, and goes on at the copy of b1."""
    there = TopicPartition("a", 0)
    forth = pipe(
        Routing(topic=SinkTopic(), partition="source"), {there: Ends(0, 5)}, mapping(A0, 6, {there: [Run(0, 0, 2)]})
    )
    back = pipe(
        Routing(topic=SinkTopic(), partition="source"), {A0: Ends(0, 6)}, mapping(there, 5, {A0: [Run(3, 3, 2)]})
    )
    for position, offset in ((2, 3), (3, 3), (4, 4), (5, 6), (1, 1)):
        held = {"g": GroupOffsets("g", {there: CommittedOffset(position)})}
        (plan,) = plan_failback(held, {}, forth, {A0: Ends(0, 6)}, "k2k_", back)
        assert plan.rows[0].offset == offset, position


def test_with_a_reverse_pipeline_that_mixes_partitions_nothing_is_guessed() -> None:
    """here: a0 a1 b' a3; there: a0' a3' in one partition, a1' b in the other; b is unread, and before a3 here."""
    there_0, there_1 = mapping(ALL0, 2, {}), mapping(ALL1, 2, {A0: [Run(1, 2, 1)]})
    ends = {ALL0: Ends(0, 3), ALL1: Ends(0, 2)}
    back_to = Routing(topic=SinkTopic(static="a"), partition="producer")
    copied = CopiedAtCut({ALL0: 2, ALL1: 2}, {A0: Ends(0, 4)}, {"a": "id"})
    back = Pipe({ALL0: there_0, ALL1: there_1}.__getitem__, back_to, copied)
    spread = pipe(SPREAD, ends, mapping(A0, 4, {ALL0: [Run(0, 0, 1), Run(3, 1, 1)], ALL1: [Run(1, 0, 1)]}))
    alone = pipe(STATIC, ends, mapping(A0, 4, {ALL0: [Run(0, 0, 2), Run(3, 2, 1)]}))
    for forth, at in ((spread, 2), (alone, 3)):
        held = {"g": GroupOffsets("g", {ALL0: CommittedOffset(at), ALL1: CommittedOffset(1)})}
        (plan,) = plan_failback(held, {}, forth, {A0: Ends(0, 4)}, "k2k_", back)
        assert [(row.decision, row.commit) for row in plan.rows] == [("unknown", False)]


def test_what_a_reverse_pipeline_copied_without_mappings_is_not_guessed() -> None:
    """here: a0 a1 b' a3, there: a0' a1' a3' b: the group has read a0' and a1', and no mapping tells of b'."""
    forth = pipe(STATIC, {ALL0: Ends(0, 4)}, mapping(A0, 4, {ALL0: [Run(0, 0, 2), Run(3, 2, 1)]}))
    held = {"g": GroupOffsets("g", {ALL0: CommittedOffset(2)})}
    back_to = Routing(topic=SinkTopic(static="a"), partition="source")
    # Nothing is covered up to its position; everything is covered and nothing was copied; nothing was copied yet.
    for covered, began, word in (((Covered(4, 4),), 0, "unknown"), ((Covered(0, 4),), 0, "exact"), ((), 4, "exact")):
        unmapped = replace(mapping(ALL0, 4, {}), covered=covered, began=began)
        back = Pipe({ALL0: unmapped}.__getitem__, back_to, CopiedAtCut({ALL0: 4}, {A0: Ends(0, 4)}, {"a": "id"}))
        (plan,) = plan_failback(held, {}, forth, {A0: Ends(0, 4)}, "k2k_", back)
        assert [row.decision for row in plan.rows] == [word]


def test_a_position_beyond_the_target_s_log_is_of_another_log() -> None:
    """Truncated, or created anew: what was read there nobody knows."""
    held = {"g": GroupOffsets("g", {XA0: CommittedOffset(30)})}
    for end, offset, word in ((30, 9, "ahead"), (29, -1, "unknown")):
        ends = {A0: Ends(0, 100), B0: Ends(0, 100)}
        (plan,) = plan_failback(held, {}, ONE, ends, "k2k_", target_logs={XA0: end})
        assert (plan.rows[0].offset, plan.rows[0].decision, plan.rows[0].commit) == (offset, word, offset >= 0)
