"""Many groups at once: each gets the same answers as alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.groups import CommittedOffset, Ends, GroupOffsets
from k2k_assets.mapping.algebra.fold import Covered, Target
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.translate import TranslationState, translate
from k2k_assets.pipeline.sections.routing import Routing, SinkTopic
from k2k_assets.translation.groups import Answer, CopiedAtCut, translate_groups
from k2k_assets.translation.log_ends import NOT_KNOWN
from k2k_assets_tests.support.suite.properties import examples

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ONE_TO_ONE = Routing(topic=SinkTopic(prefix="x."), partition="source")
STATIC = Routing(topic=SinkTopic(static="all"), partition="source")
SPREAD = Routing(topic=SinkTopic(static="all"), partition="producer")
XA0, XA1, XB0 = (TopicPartition(f"x.{tp.topic}", tp.partition) for tp in (A0, A1, B0))
ALL0, ALL1 = TopicPartition("all", 0), TopicPartition("all", 1)


def partition_map(source: TopicPartition, end: int, *runs: tuple[TopicPartition, Run], began: int = 0) -> PartitionMap:
    """Covered from 0 to `end`; target topics have the id "id"."""
    tables: dict[Target, list[Run]] = {}
    for target, run in runs:
        tables.setdefault(Target(target.topic, "id", target.partition), []).append(run)
    covered = (Covered(0, end),) if end else ()
    key = SourcePartition("c", source.topic, "source-id", source.partition)
    return PartitionMap(key, began, covered, {target: RunTable.of(runs) for target, runs in tables.items()})


def translated(
    groups: Mapping[str, Mapping[TopicPartition, int | CommittedOffset]],
    maps: Mapping[TopicPartition, PartitionMap],
    routing: Routing,
    ends: Mapping[TopicPartition, Ends],
    positions: Mapping[TopicPartition, int] | None = None,
    unstable: Mapping[str, frozenset[TopicPartition]] | None = None,
    logs: Mapping[TopicPartition, int] | None = None,
    read_to: Mapping[TopicPartition, Mapping[int, int]] | None = None,
    offline: Mapping[TopicPartition, str] | None = None,
) -> dict[str, list[Answer]]:
    offsets = {
        name: GroupOffsets(
            name,
            {tp: at if isinstance(at, CommittedOffset) else CommittedOffset(at) for tp, at in stands.items()},
            (unstable or {}).get(name, frozenset()),
        )
        for name, stands in groups.items()
    }
    copied = CopiedAtCut(
        positions if positions is not None else {tp: mapping.covered_end for tp, mapping in maps.items()},
        ends,
        {target.topic: "id" for target in ends},
        source_logs=logs,
        read_to=read_to or {},
        offline_partitions=offline or {},
    )
    return translate_groups(offsets, lambda tp, low, high: maps[tp], routing, copied, "k2k_")


def brief(answers: Mapping[str, list[Answer]]) -> dict[str, list[tuple[str, int, str]]]:
    return {name: [(str(a.target), a.offset, a.state.label) for a in found] for name, found in answers.items()}


def test_one_to_one() -> None:
    """Positions of several groups in several partitions, each by the map of its own partition."""
    maps = {
        A0: partition_map(A0, 9, (XA0, Run(0, 5, 4)), (XA0, Run(6, 10, 3))),
        A1: partition_map(A1, 3, (XA1, Run(0, 0, 3))),
    }
    ends = {XA0: Ends(2, 14), XA1: Ends(0, 4), XB0: Ends(0, 0)}
    groups = {"g": {A0: 4, A1: 2}, "h": {A0: 20, B0: 7}, "idle": {}}
    assert brief(translated(groups, maps, ONE_TO_ONE, ends)) == {
        "g": [("x.a-0", 10, "exact"), ("x.a-1", 2, "exact")],
        "h": [("x.a-0", 13, "ahead"), ("x.b-0", -1, "not replicated")],
    }


def test_nothing_was_copied_yet_is_an_answer_too() -> None:
    """A group at the start of an empty partition: its consumers must not wait for later records by `latest`."""
    ends, groups = {XA0: Ends(0, 0)}, {"g": {A0: 0}, "h": {A0: 3}}
    answers = translated(groups, {A0: partition_map(A0, 0)}, ONE_TO_ONE, ends, {A0: 0})
    assert brief(answers) == {"g": [("x.a-0", 0, "exact")], "h": [("x.a-0", 0, "ahead")]}
    # Copied, but never mapped.
    unmapped = translated(groups, {A0: partition_map(A0, 0)}, ONE_TO_ONE, ends, {A0: 3})
    assert {a.state for found in unmapped.values() for a in found} == {TranslationState.NOT_REPLICATED}


def test_a_source_topic_that_was_created_anew_begins_behind_the_copies_of_the_former_one() -> None:
    """Which are no longer mapped: from the target's log start on the group would read them again."""
    groups, nothing = {"g": {A0: 0}, "h": {A0: 3}}, partition_map(A0, 0)
    unproven = brief(translated(groups, {A0: nothing}, ONE_TO_ONE, {XA0: Ends(0, 20)}, {A0: 0}))
    assert unproven == {"g": [("x.a-0", -1, "unknown")], "h": [("x.a-0", 0, "ahead")]}
    expired = brief(translated(groups, {A0: nothing}, ONE_TO_ONE, {XA0: Ends(20, 20)}, {A0: 0}))
    assert expired == {"g": [("x.a-0", 20, "exact")], "h": [("x.a-0", 20, "ahead")]}
    filtered = brief(translated({"g": {A0: 3}}, {A0: partition_map(A0, 3)}, ONE_TO_ONE, {XA0: Ends(0, 20)}))
    assert filtered == {"g": [("x.a-0", -1, "unknown")]}, "all of it was left out"
    copied = partition_map(A0, 3, (XA0, Run(0, 20, 3)))
    assert brief(translated({"g": {A0: 0}}, {A0: copied}, ONE_TO_ONE, {XA0: Ends(0, 23)})) == {
        "g": [("x.a-0", 20, "exact")]
    }
    adopted = replace(partition_map(A0, 0), target_began=20)
    found = brief(translated({"g": {A0: 0}}, {A0: adopted}, ONE_TO_ONE, {XA0: Ends(0, 20)}, {A0: 0}))
    assert found == {"g": [("x.a-0", 20, "exact")]}, "what another tool has copied was read"


def test_a_target_topic_that_is_gone_or_anew() -> None:
    maps = {A0: partition_map(A0, 3, (XA0, Run(0, 0, 3)))}
    assert brief(translated({"g": {A0: 1}}, maps, ONE_TO_ONE, {})) == {"g": [("x.a-0", -1, "not replicated")]}
    anew = {A0: partition_map(A0, 3)}
    anew[A0] = PartitionMap(
        anew[A0].source, 0, (Covered(0, 3),), {Target("x.a", "old", 0): RunTable.of([Run(0, 0, 3)])}
    )
    groups = {"g": {A0: 1}, "h": {A0: 3}}
    answers = brief(translated(groups, anew, ONE_TO_ONE, {XA0: Ends(0, 0)}))
    assert answers == {"g": [("x.a-0", -1, "unknown")], "h": [("x.a-0", 0, "exact")]}


def test_several_sources_into_one_partition() -> None:
    maps = {
        A0: partition_map(A0, 3, (ALL0, Run(0, 0, 2)), (ALL0, Run(2, 4, 1))),
        B0: partition_map(B0, 2, (ALL0, Run(0, 2, 2))),
    }
    ends = {ALL0: Ends(0, 6)}
    groups = {
        "both": {A0: 2, B0: 2},
        "behind in b": {A0: 3, B0: 1},
        "only a": {A0: 2},
        "all read": {A0: 3, B0: 2},
    }
    assert brief(translated(groups, maps, STATIC, ends)) == {
        "both": [("all-0", 4, "exact")],
        "behind in b": [("all-0", 3, "exact")],
        "only a": [("all-0", 4, "exact")],
        "all read": [("all-0", 6, "exact")],
    }


def test_a_partition_without_a_commit_counts_as_unread_where_its_topic_is_read() -> None:
    maps = {
        A0: partition_map(A0, 2, (ALL0, Run(0, 0, 1)), (ALL1, Run(1, 0, 1))),
        A1: partition_map(A1, 2, (ALL0, Run(0, 1, 2))),
    }
    ends = {ALL0: Ends(0, 3), ALL1: Ends(0, 1)}
    answers = translated({"g": {A0: 2}}, maps, SPREAD, ends)
    assert brief(answers) == {"g": [("all-0", 1, "exact"), ("all-1", 1, "exact")]}
    assert answers["g"][0].sources == ((A0, CommittedOffset(2)),)


def test_what_was_left_out_of_a_partition_without_a_commit_is_not_passed_over() -> None:
    """Copying of a-1 began at 5: of a group that has read nothing there nobody can say that it goes on exactly."""
    whole = {A0: partition_map(A0, 2, (ALL0, Run(0, 0, 2))), A1: partition_map(A1, 7, (ALL0, Run(5, 2, 2)), began=5)}
    began = {A0: whole[A0], A1: replace(whole[A1], covered=(Covered(5, 7),))}
    ends = {ALL0: Ends(0, 4)}
    for log_start, said in ((0, ("all-0", -1, "unknown")), (5, ("all-0", 2, "exact"))):
        maps = {**began, A1: replace(began[A1], log_start=log_start)}
        assert brief(translated({"g": {A0: 2}}, maps, SPREAD, ends)) == {"g": [said]}
        read = translated({"g": {A0: 2, A1: 6}}, maps, SPREAD, ends)
        assert brief(read) == {"g": [("all-0", 3, "exact")]}
        # Nothing of it is copied yet.
        waits = {**maps, A1: replace(maps[A1], covered=(), runs={})}
        waiting = translated({"g": {A0: 2}}, waits, SPREAD, {ALL0: Ends(0, 2)}, {A0: 2, A1: 5})
        assert brief(waiting) == {"g": [("all-0", *said[1:])]}


def test_what_a_hidden_topic_has_left_in_a_shared_target_makes_positions_there_unknown() -> None:
    """The ends of the target are known all the same; but nobody can tell how far the hidden topic was read."""
    maps = {A0: partition_map(A0, 2, (ALL0, Run(0, 0, 2))), B0: partition_map(B0, 2, (ALL0, Run(0, 2, 2)))}
    groups, ends = {"g": {A0: 2, B0: 2}}, {ALL0: Ends(0, 9)}
    assert brief(translated(groups, maps, STATIC, ends)) == {"g": [("all-0", 9, "exact")]}
    hidden = {ALL0: "h may not be seen"}
    assert brief(translated(groups, maps, STATIC, ends, offline=hidden)) == {"g": [("all-0", -1, "unknown")]}


def test_a_topic_of_which_all_commits_are_pending_is_read_too() -> None:
    """The group's first transaction in b is open: the records of b are unread, and lie before those of a."""
    maps = {
        A0: partition_map(A0, 3, (ALL0, Run(0, 2, 3))),
        B0: partition_map(B0, 2, (ALL0, Run(0, 0, 2))),
    }
    ends, groups = {ALL0: Ends(0, 5), ALL1: Ends(0, 0)}, {"g": {A0: 1}}
    assert brief(translated(groups, maps, STATIC, ends)) == {"g": [("all-0", 3, "exact")]}
    pending = {"g": frozenset({TopicPartition("b", 1)})}
    assert brief(translated(groups, maps, STATIC, ends, unstable=pending)) == {"g": [("all-0", 0, "exact")]}


def test_what_went_to_other_partitions_under_another_routing_is_not_skipped() -> None:
    """Copied with `partition: producer` up to 4, with `partition: source` since."""
    before = [(ALL0, Run(0, 0, 1)), (ALL1, Run(1, 0, 1)), (ALL0, Run(2, 1, 1)), (ALL1, Run(3, 1, 1))]
    runs = [*before, (ALL0, Run(4, 2, 2))]
    maps = {A0: partition_map(A0, 6, *runs), B0: partition_map(B0, 2, (ALL0, Run(0, 4, 2)))}
    ends, groups = {ALL0: Ends(0, 6), ALL1: Ends(0, 2)}, {"g": {A0: 1}, "h": {A0: 3}, "i": {A0: 4}}
    expected = {"g": [("all-0", -1, "unknown")], "h": [("all-0", -1, "unknown")], "i": [("all-0", 2, "exact")]}
    alone = {A0: maps[A0]}
    assert brief(translated(groups, alone, STATIC, ends)) == expected
    assert brief(translated(groups, maps, STATIC, ends)) == expected
    spread = brief(translated({"g": {A0: 1}}, alone, SPREAD, ends))
    assert spread == {"g": [("all-0", 1, "exact"), ("all-1", 0, "exact")]}


def test_what_others_left_in_a_partition_under_another_routing_is_not_skipped() -> None:
    """`b` went to the topic of `a` up to 2, and goes to one of its own since."""
    maps = {
        A0: partition_map(A0, 3, (XA0, Run(0, 0, 1)), (XA0, Run(1, 3, 2))),
        B0: partition_map(B0, 4, (XA0, Run(0, 1, 2)), (XB0, Run(2, 0, 2))),
    }
    ends = {XA0: Ends(0, 5), XB0: Ends(0, 2)}
    groups = {"g": {A0: 2, B0: 1}, "h": {A0: 2, B0: 2}, "only a": {A0: 2}}
    assert brief(translated(groups, maps, ONE_TO_ONE, ends)) == {
        "g": [("x.a-0", -1, "unknown"), ("x.b-0", -1, "unknown")],
        "h": [("x.a-0", 4, "exact"), ("x.b-0", 0, "exact")],
        "only a": [("x.a-0", 4, "exact")],
    }
    expired = brief(translated(groups, maps, ONE_TO_ONE, {**ends, XA0: Ends(3, 5)}))
    assert expired["g"] == [("x.a-0", 4, "exact"), ("x.b-0", -1, "unknown")], "nothing of b is there any more"
    # The mapping record of 2 and 3 is lost, and then that of 5 and 6 too: they may have gone to either topic.
    holes, found = {str(at): {A0: 2, B0: at} for at in (3, 4, 6, 7)}, {}
    for covered in ((Covered(0, 2), Covered(4, 8)), (Covered(0, 2), Covered(4, 5), Covered(7, 8))):
        maps[B0] = replace(partition_map(B0, 2, (XA0, Run(0, 1, 2))), covered=covered)
        rows = translated(holes, maps, ONE_TO_ONE, ends)
        found[covered[-1].start] = {name for name, answers in rows.items() if answers[0].offset == 4}
        assert {answers[0].state for name, answers in rows.items()} == {
            TranslationState.EXACT, TranslationState.UNKNOWN
        }  # fmt: skip
    assert found == {4: {"4", "6", "7"}, 7: {"7"}}


@st.composite
def rerouted(draw: st.DrawFn) -> tuple[Routing, dict[TopicPartition, list[tuple[TopicPartition, Run]]]]:
    """Records copied one by one under some routings in turn; and the routing of today."""
    ends: Counter[TopicPartition] = Counter()
    copies: dict[TopicPartition, list[tuple[TopicPartition, Run]]] = {A0: [], A1: [], B0: []}
    routing = ONE_TO_ONE
    for routing in draw(st.lists(st.sampled_from((ONE_TO_ONE, STATIC, SPREAD)), min_size=1, max_size=3)):
        for source in draw(st.lists(st.sampled_from((A0, A1, B0)), max_size=8)):
            partition = draw(st.integers(0, 1)) if routing is SPREAD else source.partition
            target = TopicPartition(routing.target_topic(source.topic), partition)
            ends[target] += draw(st.integers(0, 1))  # a marker
            copies[source].append((target, Run(len(copies[source]), ends[target], 1)))
            ends[target] += 1
    return routing, copies


@examples(200)
@given(rerouted(), st.dictionaries(st.sampled_from((A0, A1, B0)), st.integers(0, 9), min_size=1))
def test_no_change_of_the_routing_makes_a_group_skip_anything(
    copied: tuple[Routing, dict[TopicPartition, list[tuple[TopicPartition, Run]]]], group: dict[TopicPartition, int]
) -> None:
    routing, copies = copied
    maps = {source: partition_map(source, len(runs), *runs) for source, runs in copies.items()}
    ends = dict.fromkeys((XA0, XA1, XB0, ALL0, ALL1), Ends(0, 99))
    topics = {source.topic for source in group}
    for answer in translated({"g": group}, maps, routing, ends).get("g", ()):
        unread = [
            run.target_start
            for source, runs in copies.items()
            for target, run in runs
            if target == answer.target and source.topic in topics and run.source_start >= group.get(source, 0)
        ]
        assert answer.offset <= min(unread, default=99)


def test_an_unstable_position_is_not_guessed() -> None:
    maps = {tp: partition_map(tp, 1, (ALL0, Run(0, at, 1))) for at, tp in enumerate((A0, B0))}
    ends = {ALL0: Ends(0, 2)}
    held_back = {"g": frozenset({B0})}
    assert translated({"g": {A0: 1}}, maps, STATIC, ends, unstable=held_back) == {}
    one_to_one = {A0: partition_map(A0, 1, (XA0, Run(0, 0, 1)))}
    answers = translated({"g": {A0: 1}}, one_to_one, ONE_TO_ONE, {XA0: Ends(0, 1)}, unstable=held_back)
    assert brief(answers) == {"g": [("x.a-0", 1, "exact")]}


def test_a_position_beyond_the_source_s_log_is_of_another_log() -> None:
    """Truncated, or created anew: its consumers are reset on the source, and what they have read nobody knows."""
    maps = {A0: partition_map(A0, 4, (XA0, Run(0, 0, 4))), A1: partition_map(A1, 4, (XA1, Run(0, 0, 4)))}
    ends, logs = {XA0: Ends(0, 4), XA1: Ends(0, 4)}, {A0: 6, A1: 6}
    stands = {A0: 6, A1: 7}
    assert brief(translated({"g": stands}, maps, ONE_TO_ONE, ends, logs=logs)) == {
        "g": [("x.a-0", 4, "ahead"), ("x.a-1", -1, "unknown")]
    }
    mixed = {A0: partition_map(A0, 2, (ALL0, Run(0, 0, 2))), B0: partition_map(B0, 2, (ALL0, Run(0, 2, 2)))}
    groups = {"g": {A0: 2, B0: 3}, "h": {A0: 2, B0: 1}}
    assert brief(translated(groups, mixed, STATIC, {ALL0: Ends(0, 4)}, logs={A0: 2, B0: 2})) == {
        "g": [("all-0", -1, "unknown")],
        "h": [("all-0", 3, "exact")],
    }


def test_where_nobody_can_tell_of_the_source_s_log_every_position_is_unknown() -> None:
    maps = {A0: partition_map(A0, 4, (XA0, Run(0, 0, 4)))}
    groups, ends = {"g": {A0: 0}, "h": {A0: 2}}, {XA0: Ends(0, 4)}
    unknown = [("x.a-0", -1, "unknown")]
    assert brief(translated(groups, maps, ONE_TO_ONE, ends, logs={A0: NOT_KNOWN})) == {"g": unknown, "h": unknown}
    cut_at_0 = brief(translated(groups, maps, ONE_TO_ONE, ends, logs={A0: 0}))
    assert cut_at_0 == {"g": [("x.a-0", 0, "exact")], "h": unknown}
    mixed = {A0: partition_map(A0, 2, (ALL0, Run(0, 0, 2))), B0: partition_map(B0, 2, (ALL0, Run(0, 2, 2)))}
    alone = brief(translated({"g": {A0: 1}, "h": {B0: 1}}, mixed, STATIC, {ALL0: Ends(0, 4)}, logs={B0: NOT_KNOWN}))
    assert alone == {"g": [("all-0", 1, "exact")], "h": [("all-0", -1, "unknown")]}, "g does not read topic b"


def test_what_was_read_of_a_former_log_has_no_translation_however_far_the_copy_is() -> None:
    """The log was cut off at 1 and copied anew from there on: epoch 0 tells of a group that it has read another log."""
    read_to = {A0: {0: 1, 3: NOT_KNOWN}}
    maps = {A0: partition_map(A0, 4, (XA0, Run(0, 0, 4)))}
    groups = {f"{at} in {epoch}": {A0: CommittedOffset(at, "", epoch)} for at in (1, 2) for epoch in (None, 0, 2, 3)}
    found = brief(translated(groups, maps, ONE_TO_ONE, {XA0: Ends(0, 4)}, read_to=read_to))
    unknown = {"2 in 0", "1 in 3", "2 in 3"}
    assert {name for name, answers in found.items() if answers == [("x.a-0", -1, "unknown")]} == unknown
    assert {answers[0][2] for name, answers in found.items() if name not in unknown} == {"exact"}
    mixed = {A0: partition_map(A0, 2, (ALL0, Run(0, 0, 2))), B0: partition_map(B0, 2, (ALL0, Run(0, 2, 2)))}
    former = {name: {**stands, B0: CommittedOffset(1, "", 0)} for name, stands in groups.items()}
    found = brief(translated(former, mixed, STATIC, {ALL0: Ends(0, 4)}, read_to=read_to))
    assert {name for name, answers in found.items() if answers == [("all-0", -1, "unknown")]} == unknown


def test_who_has_read_a_former_log_has_not_read_what_it_left_in_a_partition_under_another_routing() -> None:
    """Records of a went to the partition that b feeds today."""
    maps = {
        A0: partition_map(A0, 4, (XB0, Run(0, 0, 2)), (XA0, Run(2, 0, 2))),
        B0: partition_map(B0, 2, (XB0, Run(0, 2, 2))),
    }
    ends, group = {XA0: Ends(0, 2), XB0: Ends(0, 4)}, {A0: CommittedOffset(3, "", 0), B0: CommittedOffset(1)}
    for read_to, answers in (({}, [1, 3]), ({A0: {0: 1}}, [-1, -1])):
        found = translated({"g": group}, maps, ONE_TO_ONE, ends, read_to=read_to)
        assert [answer.offset for answer in found["g"]] == answers


def test_translations_are_marked() -> None:
    maps = {A0: partition_map(A0, 1, (XA0, Run(0, 0, 1))), A1: partition_map(A1, 1, (XA1, Run(0, 0, 1)))}
    stands = {A0: CommittedOffset(1, "k2k_4.5"), A1: CommittedOffset(1, "k2k_but not a version")}
    answers = translated({"g": stands}, maps, ONE_TO_ONE, {XA0: Ends(0, 1), XA1: Ends(0, 1)})
    assert [answer.translated for answer in answers["g"]] == [True, False]


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.dictionaries(st.sampled_from("ghijk"), st.integers(0, 20), min_size=1),
)
def test_in_bulk_as_one_by_one(gaps: list[int], positions: dict[str, int]) -> None:
    runs, source, target = [], 0, 0
    for gap in gaps:
        runs.append((XA0, Run(source + gap, target + 1, 2)))
        source, target = source + gap + 2, target + 3
    mapping = partition_map(A0, source, *runs)
    ends = {XA0: Ends(0, target + 1)}
    answers = translated({name: {A0: at} for name, at in positions.items()}, {A0: mapping}, ONE_TO_ONE, ends)
    for name, at in positions.items():
        alone = translate(mapping, Target("x.a", "id", 0), np.array([at]), floor=0)
        assert answers[name] == [
            Answer(XA0, int(alone.offsets[0]), TranslationState(int(alone.states[0])), ((A0, CommittedOffset(at)),))
        ]
