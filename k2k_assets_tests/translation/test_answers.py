"""Which partitions have the answer for a position, by routing; and answers below a log start."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from k2k_assets.core.runs import Run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.partition_map import PartitionMap, RunTable, SourcePartition
from k2k_assets.mapping.algebra.translate import STATE_LABELS
from k2k_assets.pipeline.sections.routing import Routing, SinkTopic
from k2k_assets.translation.answers import PositionAnswers, before_cut_off, on_source, on_target
from k2k_assets.translation.log_ends import NOT_KNOWN
from k2k_assets.translation.routes import Routes, Standing, newest_ids, routes
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.offset_model import target
from k2k_assets_tests.support.memory.plans import commit_record


def _routes(targets: dict[str, str] | None = None, same: bool = True, **starts: dict[TopicPartition, int]) -> Routes:
    source = Standing({"s": "sid", "s2": "sid2"}, starts.get("source", {}))
    targets = targets or {"s": "t"}
    spread: frozenset[str] = frozenset() if same else frozenset(targets)
    at = starts.get("target", {})
    return Routes("c", targets, spread, source, Standing({"t": "tid"}, at, ends={**at, **starts.get("ends", {})}))


def _map(runs: dict[int, list[Run]], topic: str = "s", topic_id: str = "sid") -> PartitionMap:
    tables = {target(q): RunTable.of(of_q) for q, of_q in runs.items()}
    return PartitionMap(SourcePartition("c", topic, topic_id, 0), 0, (Covered(0, 9),), tables)


def _shown(answers: list[PositionAnswers]) -> list[Any]:
    return [(str(a.place), a.offsets.tolist(), [STATE_LABELS[state] for state in a.states]) for a in answers]


def test_each_partition_into_its_own() -> None:
    answers = on_target(_routes(), _map({0: [Run(2, 10, 5)]}), np.array([0, 3, 12]))
    assert _shown(answers) == [("t-0", [10, 11, 15], ["exact", "exact", "ahead"])]


def test_beyond_the_log_of_the_source_nobody_knows() -> None:
    """A topic that was created anew and copied again: what a reader of the former one has read tells nothing."""
    answers = on_target(_routes(), _map({0: [Run(2, 10, 5)]}), np.array([3, 12, 13]), log_end=12)
    assert _shown(answers) == [("t-0", [11, 15, -1], ["exact", "ahead", "unknown"])]


def test_below_the_log_start_is_expired_and_raised_to_it() -> None:
    mapping = _map({0: [Run(2, 10, 5)]})
    routes = _routes(target={TopicPartition("t", 0): 12}, source={TopicPartition("s", 0): 4})
    assert _shown(on_target(routes, mapping, np.array([0, 4]))) == [("t-0", [12, 12], ["expired", "exact"])]
    back = on_source(routes, [mapping], target(0), np.array([11, 13]))
    assert _shown(back) == [("s-0", [4, 5], ["expired", "exact"])]


def test_where_a_partition_has_no_leader_only_positions_there_are_unknown() -> None:
    """Nobody knows where its log starts, so whether the record is still there."""
    clusters = [FakeCluster({name: (topic_id, 2)}) for name, topic_id in (("s", "sid"), ("t", "tid"))]
    mapping = _map({0: [Run(2, 10, 5)], 1: [Run(7, 20, 1)]})
    spread = Routing(topic=SinkTopic(static="t"), partition="producer")

    def standing() -> Routes:
        pipeline: Any = SimpleNamespace(routing=spread, features=SimpleNamespace(exactly_once=True))
        return routes(pipeline, "c", {"s": "sid"}, *cast("list[Cluster]", clusters))

    there = [("t-0", [12], ["exact"]), ("t-1", [20], ["exact"])]
    assert _shown(on_target(standing(), mapping, np.array([4]))) == there
    clusters[1].offline_partitions = {TopicPartition("t", 1)}
    hidden = [there[0], ("t-1", [-1], ["unknown"])]
    assert _shown(on_target(standing(), mapping, np.array([4]))) == hidden
    clusters[1].offline_partitions |= {TopicPartition("t", 0)}
    assert _shown(on_target(standing(), mapping, np.array([4])))[0] == ("t-0", [-1], ["unknown"])

    assert _shown(on_source(standing(), [mapping], target(0), np.array([11]))) == [("s-0", [3], ["exact"])]
    clusters[0].offline_partitions = {TopicPartition("s", 0)}
    assert _shown(on_source(standing(), [mapping], target(0), np.array([11]))) == [("s-0", [-1], ["unknown"])]
    missing = [_map({1: [Run(7, 20, 1)]})]
    assert _shown(on_source(standing(), missing, target(0), np.array([1]))) == [("None", [-1], ["not replicated"])]


def test_nothing_mapped_is_at_the_log_start_only_where_no_other_source_feeds_it() -> None:
    nothing = _map({})
    starts = {TopicPartition("t", 0): 3}
    assert _shown(on_target(_routes(target=starts), nothing, np.array([5]))) == [("t-0", [3], ["exact"])]
    shared = _routes({"s": "t", "s2": "t"}, target=starts)
    assert _shown(on_target(shared, nothing, np.array([5]))) == [("t-0", [-1], ["not replicated"])]


def test_the_log_start_is_exact_only_where_nothing_lies_in_the_target() -> None:
    """What lies there may be copies of a former source topic of that name, which a group there would read again."""
    nothing, at = _map({}), TopicPartition("t", 0)
    positions = np.array([0, 9, 10])  # the last is ahead of the copy: its answer moves on with it
    former = _routes(target={at: 3}, ends={at: 7})
    assert _shown(on_target(former, nothing, positions)) == [("t-0", [-1, -1, 3], ["unknown", "unknown", "ahead"])]
    expired = _routes(target={at: 7}, ends={at: 7})
    assert _shown(on_target(expired, nothing, positions)) == [("t-0", [7, 7, 7], ["exact", "exact", "ahead"])]
    copied = _map({0: [Run(2, 7, 5)]})
    assert _shown(on_target(former, copied, np.array([0]))) == [("t-0", [7], ["exact"])]


def test_a_partition_that_is_spread_has_an_answer_in_each() -> None:
    mapping = _map({1: [Run(2, 10, 5)], 0: [Run(1, 7, 1)]})
    answers = on_target(_routes(same=False), mapping, np.array([1]))
    assert _shown(answers) == [("t-0", [7], ["exact"]), ("t-1", [10], ["exact"])]
    assert _shown(on_target(_routes(same=False), _map({}), np.array([1]))) == [("None", [-1], ["not replicated"])]


def test_what_went_to_other_partitions_under_another_routing_is_not_skipped() -> None:
    mapping = _map({0: [Run(0, 0, 1), Run(2, 1, 5)], 1: [Run(1, 0, 1)]})
    assert _shown(on_target(_routes(), mapping, np.array([1, 2]))) == [("t-0", [-1, 1], ["unknown", "exact"])]


def test_back_to_every_source_of_a_partition() -> None:
    maps = [_map({0: [Run(0, 0, 2)]}), _map({0: [Run(0, 3, 2)]}, "s2", "sid2"), _map({1: [Run(0, 0, 2)]}, "s3")]
    answers = on_source(_routes(), maps, target(0), np.array([4]), mapped_to=9)
    assert _shown(answers) == [("s-0", [2], ["exact"]), ("s2-0", [1], ["exact"])]
    assert _shown(on_source(_routes(), [], target(0), np.array([4]))) == [("None", [-1], ["not replicated"])]


def test_back_at_least_once_what_may_be_read_again_is_said() -> None:
    """0 1 2 (3 4) 3 4 5: of the copies in brackets no mapping record tells."""
    mapping, asked = _map({0: [Run(0, 0, 3), Run(3, 5, 3)]}), np.array([3, 4, 5, 6, 7, 8])
    [found] = on_source(replace(_routes(), at_least_once=True), [mapping], target(0), asked)
    assert [STATE_LABELS[state] for state in found.states] == ["exact", *["may be read again"] * 3, "exact", "exact"]
    assert found.offsets.tolist() == [3, 3, 3, 4, 5, 6]
    [found] = on_source(_routes(), [mapping], target(0), asked)
    assert {STATE_LABELS[state] for state in found.states} == {"exact"}


@pytest.mark.parametrize(
    ("told", "repeated"),
    [
        ({"at_least_once": True}, {4, 5, 6, 9}),
        ({"at_least_once_below": 3}, {4, 5, 6}),  # behind its copy at 5 lie markers
        ({"at_least_once_below": 5}, {4, 5, 6}),
        ({"at_least_once_below": 6}, {4, 5, 6, 9}),  # it is not copied yet: 6 may have been, and is to come again
        ({"at_least_once": True, "source_topic_id": "former"}, set()),
        ({"at_least_once_below": 6, "source_topic_id": "former"}, set()),
        ({"at_least_once": True, "source": TopicPartition("s", 1)}, set()),
    ],
)
def test_back_what_was_copied_at_least_once_may_be_read_again_whatever_the_file_says(
    told: dict[str, Any], repeated: set[int]
) -> None:
    """0 1 2 (3 4) 3 4 5 |: of the copies in brackets no mapping record tells."""
    mapping, asked = _map({0: [Run(0, 0, 3), Run(3, 5, 3)]}), np.arange(10)
    place = TopicPartition("s", 0)
    record = replace(commit_record(place, 6), **{"source_topic_id": "sid", **told})
    noted = _routes().as_noted([record])
    [found] = on_source(noted, [mapping], target(0), asked, mapped_to=9)
    assert {at for at, state in enumerate(found.states) if STATE_LABELS[state] == "may be read again"} == repeated
    is_so = bool(repeated) and record.at_least_once
    assert noted.is_at_least_once(place) == is_so, "where it was copied so earlier, nothing else is to come"


def test_runs_into_a_topic_that_was_deleted_are_not_consulted() -> None:
    gone = target(0)._replace(topic_id="old")
    old = PartitionMap(_map({}).source, None, (Covered(0, 9),), {gone: RunTable.of([Run(0, 5, 9)])})
    for same, place in ((True, "t-0"), (False, "None")):
        assert _shown(on_target(_routes(same=same), old, np.array([1]))) == [(place, [-1], ["not replicated"])]


def test_a_target_topic_that_does_not_exist() -> None:
    routes = Routes("c", {"s": "gone"}, frozenset(), Standing({"s": "sid"}, {}), Standing({}, {}))
    assert _shown(on_target(routes, _map({}), np.array([1]))) == [("None", [-1], ["not replicated"])]


def test_of_a_topic_that_was_created_anew_the_id_that_was_copied_last_counts() -> None:
    old, new = SourcePartition("c", "s", "old", 1), SourcePartition("c", "s", "new", 0)
    assert newest_ids([(new, (2, 1)), (old, (1, 9))]) == {"s": "new"}


def test_on_the_way_back_nothing_lies_behind_a_cut_off() -> None:
    place = TopicPartition("s", 0)
    answer = PositionAnswers(place, np.array([3, 4, 9, -1]), np.zeros(4, np.uint8))
    assert before_cut_off(answer, {place: 4}).offsets.tolist() == [3, 4, 4, -1]
    assert before_cut_off(answer, {TopicPartition("s", 1): 4}).offsets.tolist() == [3, 4, 9, -1]
    assert before_cut_off(answer._replace(place=None), {place: 4}).offsets.tolist() == [3, 4, 9, -1]
    assert before_cut_off(answer, {place: 0}).offsets.tolist() == [0, 0, 0, -1], "nothing is left of what was copied"


def test_where_nobody_can_tell_of_the_source_s_log_nothing_is_known() -> None:
    """Not even of position 0: it is not the answer of a log that was cut off at 0."""
    place, mapping = TopicPartition("s", 0), _map({0: [Run(0, 10, 5)]})
    forth = [on_target(_routes(), mapping, np.array([0, 3]), log_end=end) for end in (0, NOT_KNOWN)]
    assert _shown(forth[0]) == [("t-0", [10, -1], ["exact", "unknown"])]
    assert _shown(forth[1]) == [("t-0", [-1, -1], ["unknown", "unknown"])]
    back = on_source(_routes(), [mapping], target(0), np.array([10, 13]))
    assert _shown([before_cut_off(back[0], {place: 0})]) == [("s-0", [0, 0], ["exact", "exact"])]
    assert _shown([before_cut_off(back[0], {place: NOT_KNOWN})]) == [("s-0", [-1, -1], ["unknown", "unknown"])]
