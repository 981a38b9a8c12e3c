"""What the instruments of an offset mapper tell, from its polls alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.telemetry.group_states import GROUP_STATES, group_states
from k2k_assets.telemetry.index_ends import IndexEnds
from k2k_assets.telemetry.mapper_instruments import MapperInstruments
from k2k_assets.telemetry.metric_records import MOST_POINTS, metric_records
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.mapping_topic import CLUSTERS, GROUP, TOPIC, mapping_record
from k2k_assets_tests.support.memory.polls import poll
from k2k_assets_tests.support.memory.stored_index import StoredIndex, stored_index
from k2k_assets_tests.telemetry.pages import named_in
from k2k_assets_tests.telemetry.readings import Labels, Reading

NOTHING: Labels = frozenset()
ORDERS = SourcePartition("c", "orders", "id", 0)
FORMER = SourcePartition("c", "orders", "an id of before", 0)
PREFIX = "k2k.offsetmapping."


class Metrics(Reading):
    """The instruments, and what a reader finds in them."""

    def __init__(self, directory: Path, ends: Mapping[SourcePartition, int] | None = None, **sections: object) -> None:
        self.pipeline = make_pipeline(directory, "a:1", "b:1", ["orders"], **sections)
        super().__init__(self.pipeline.name)
        self.instruments = MapperInstruments(self.meter, self.pipeline, lambda: ends or {})


def of(**labels: object) -> Labels:
    return frozenset(labels.items())


def counts(found: Mapping[Labels, float]) -> dict[str, float]:
    return {str(dict(labels)["state"]): count for labels, count in found.items() if count}


def test_groups_are_counted_by_the_state_that_needs_most_attention(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    words = {"a": CommitDecision.EXACT, "b": CommitDecision.AHEAD, "c": CommitDecision.UNKNOWN}
    metrics.instruments.polled(poll(words, failed={"b": "no answer", "d": "no answer"}))
    found = metrics.found()
    assert counts(found[f"{PREFIX}groups"]) == {"exact": 1, "unknown": 1, "failed": 2}
    assert {dict(labels)["state"] for labels in found[f"{PREFIX}groups"]} == set(GROUP_STATES), "also those with none"
    assert counts(found[f"{PREFIX}positions"]) == {"exact": 1, "ahead": 1, "unknown": 1}
    left = {of(group="a", cluster="source"): 4, of(group="a", cluster="target"): 3}
    assert left.items() <= found[f"{PREFIX}group.lag"].items()
    assert found[f"{PREFIX}group.lag"][of(group="c", cluster="target")] == 0, "it has no position there"


def test_a_group_is_in_the_worst_state_of_its_positions() -> None:
    result = poll({"g": CommitDecision.EXACT})
    [row] = result.decisions["g"].rows
    for decision in CommitDecision:
        result.decisions["g"].rows[:] = [row, row._replace(decision=decision)]
        assert group_states(result) == {"g": decision.value}


def test_polls_commits_and_failures_add_up(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    assert metrics.found()[f"{PREFIX}commits"] == {NOTHING: 0}, "a rate needs a beginning"
    words = {"a": CommitDecision.EXACT}
    metrics.instruments.polled(poll(words, committed=frozenset("a"), seconds=0.5, records_read=10))
    metrics.instruments.troubled(ClusterUnreachable("no answer"))
    metrics.instruments.polled(poll(words, seconds=0.25, records_read=12))
    found = metrics.found()
    assert found[f"{PREFIX}commits"] == found[f"{PREFIX}poll.failures"] == {NOTHING: 1}
    assert found[f"{PREFIX}poll.duration"] == {NOTHING: 0.75}
    assert found[f"{PREFIX}mapping_records"] == {NOTHING: 12}
    assert found[f"{PREFIX}generation"] == {NOTHING: 1}


def test_how_far_mappings_and_index_reach(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, {ORDERS: 40, FORMER: 99})
    metrics.instruments.polled(poll({}, mapped_ends={ORDERS: 50}, held_back="a check failed"))
    found = metrics.found()
    assert found[f"{PREFIX}mapped.end"] == {of(topic="orders", partition=0): 50}
    assert found[f"{PREFIX}index.end"] == {of(topic="orders", partition=0): 40}
    assert found[f"{PREFIX}groups.held_back"] == {NOTHING: 1}


def test_the_page_names_each_metric_and_no_other(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, {ORDERS: 40})
    metrics.instruments.polled(poll({"a": CommitDecision.EXACT}, mapped_ends={ORDERS: 50}))
    assert named_in("What there is of an offset mapper") == metrics.found().keys()


def test_names_begin_as_the_file_says(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, metrics={"prefix": {"offsetMappingApp": "acme_"}})
    metrics.instruments.polled(poll({}))
    assert all(name.startswith("acme_") for name in metrics.found())


def test_in_a_topic_many_groups_take_several_records_and_a_duration_is_an_object(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    many = {str(number): CommitDecision.EXACT for number in range(MOST_POINTS)}
    metrics.instruments.polled(poll(many, seconds=0.2))
    found = [json.loads(value) for _, value in metric_records(metrics.data())]
    lags = [len(each["points"]) for each in found if each["metric"] == f"{PREFIX}group.lag"]
    assert lags == [MOST_POINTS, MOST_POINTS]
    [duration] = [each for each in found if each["metric"] == f"{PREFIX}poll.duration"]
    value = duration["points"][0]["value"]
    assert (duration["kind"], value["count"], value["sum"]) == ("histogram", 1, 0.2)
    assert sum(value["buckets"]) == 1
    assert len(value["buckets"]) == len(value["bounds"]) + 1


@pytest.fixture
def index(tmp_path: Path) -> Iterator[StoredIndex]:
    with stored_index(tmp_path) as made:
        yield made


def test_the_ends_of_the_index_are_read_once_in_a_while(index: StoredIndex, tmp_path: Path) -> None:
    pipeline = make_pipeline(
        tmp_path, "a:1", "b:1", ["s"], consumer={"group.id": GROUP},
        offsetMapping={"topic": TOPIC}, index={"path": index.root.address},
    )  # fmt: skip
    clock = FakeClock()
    ends = IndexEnds(pipeline, clock)
    source = SourcePartition(CLUSTERS[0], "s", "sid", 0)
    assert ends.read() == {}, "there is none yet"
    index.topic.write(mapping_record((1, 0), (0, 10), [(0, 0, 10)]))
    index.update()
    assert ends.read() == {}
    for covered in (10, 20):
        clock.advance(16)
        assert ends.read() == {source: covered}
        index.topic.write(mapping_record((1, covered), (covered, covered + 10), [(covered, covered, 10)]))
        index.update()
