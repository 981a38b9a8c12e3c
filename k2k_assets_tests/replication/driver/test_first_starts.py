"""First starts of topics with `latest` or a time, with a death at any step while the first positions are committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from k2k_assets.control.assignment_records import start_key, start_value
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import TopicDescription
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.replication.driver import first_starts
from k2k_assets.replication.driver.planning import ClusterSnapshot
from k2k_assets.replication.plan import ControlPartitions
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster

NOON = 1_700_000_000_000
P0, P1, P2 = (TopicPartition("t", p) for p in range(3))


class Harness:
    """A source with a topic of some partitions, and an assignment topic in memory."""

    def __init__(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, reset: str, partitions: int = 2, at: int | None = None
    ) -> None:
        consumer = {"group.id": "k2k.g", "auto.offset.reset": reset}
        stages = [{"source": {"topic": ["t"], "start": at}}, {"sink": {"topic": "source", "partition": "source"}}]
        rest = {"replication": stages} if at is not None else {}
        self.pipeline = make_pipeline(directory, "a:1", "b:1", ["t"], consumer=consumer, **rest)
        self.at_times: dict[tuple[TopicPartition, int], int] = {}
        self.state = Assignments()
        self.partitions = partitions
        self.ends = 100
        monkeypatch.setattr(first_starts, "write_records", lambda _, records: [self._apply(*r) for r in records])

    def _apply(self, key: bytes, value: bytes | None) -> int:
        self.state.apply("k2k.g", 1, key, value)
        return 1

    def begin(
        self,
        committed: Collection[TopicPartition] = (),
        appeared: Collection[str] = (),
        offline_partitions: Collection[TopicPartition] = (),
        **more: bool,
    ) -> Mapping[TopicPartition, int]:
        partitions = [TopicPartition("t", p) for p in range(self.partitions)]
        cluster = FakeCluster({}, dict.fromkeys(partitions, 40), stable=dict.fromkeys(partitions, self.ends))
        cluster.offline_partitions.update(offline_partitions)
        cluster.at_times.update(self.at_times)
        described = {"t": TopicDescription("t", "s-t", self.partitions)}
        snapshot = ClusterSnapshot(
            "c",
            {"t": ("t", self.partitions)},
            described,
            described,
            ControlPartitions(1, 6, "commits"),
            1_000_000,
            True,
        )
        noted = dict(self.state.starts)
        return first_starts.hold_first_starts(
            self.pipeline,
            snapshot,
            cluster,  # type: ignore[arg-type]
            noted,
            committed,
            appeared,
            **more,
        )


def test_the_first_look_holds_until_every_partition_has_a_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Harness(tmp_path, monkeypatch, "latest")
    assert harness.begin() == {P0: 100, P1: 100}
    harness.ends = 200
    assert harness.begin() == {P0: 100, P1: 100}, "nobody had begun"
    assert harness.begin({P0}) == {P0: 100, P1: 100}, "one had"
    harness.partitions = 3
    assert P2 not in harness.begin({P0}), "one that the topic has got since starts at its beginning"
    harness.begin({P0, P1})
    assert harness.state.starts == {}
    assert harness.begin({P0, P1}) == {}


def test_a_topic_that_appeared_while_an_instance_ran_begins_at_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Harness(tmp_path, monkeypatch, "latest")
    assert harness.begin(appeared={"t"}) == {P0: 40, P1: 40}
    assert harness.begin() == {P0: 40, P1: 40}, "another instance does not know that it is new"


def test_a_time_is_noted_so_that_a_partition_that_is_added_begins_at_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first records may be older than the time, by their own clocks: and they came after copying began."""
    harness = Harness(tmp_path, monkeypatch, "earliest", at=NOON)
    harness.at_times = {(P0, NOON): 70, (P2, NOON): 80}
    assert harness.begin(offline_partitions=[P1]) == {P0: 70, P1: END_UNKNOWN}
    harness.at_times[P0, NOON] = 75
    assert harness.begin() == {P0: 75, P1: 100}, "nobody had begun: the file may have been given another time"
    assert harness.begin(offline_partitions=[P1]) == {P0: 75, P1: END_UNKNOWN}
    harness.at_times[P0, NOON] = 90
    harness.partitions = 3
    assert harness.begin({P0}) == {P0: 75, P1: END_UNKNOWN}
    harness.begin({P0, P1})
    assert harness.begin({P0, P1}) == {}
    harness = Harness(tmp_path, monkeypatch, "earliest", at=NOON)
    harness.at_times = {(P0, NOON): 70}
    assert harness.begin(appeared={"t"}) == {P0: 70, P1: 100}, "a time counts for a topic that appears, too"
    assert Harness(tmp_path, monkeypatch, "earliest", at=NOON).begin(all_is_known=False) == {}


@pytest.mark.parametrize("offline_partitions", [[P1], [P0, P1]])
def test_one_without_a_leader_begins_at_its_end_and_holds_up_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline_partitions: list[TopicPartition]
) -> None:
    begins_at = {P0: 100, P1: 100} | dict.fromkeys(offline_partitions, END_UNKNOWN)
    harness = Harness(tmp_path, monkeypatch, "latest")
    assert harness.begin(offline_partitions=offline_partitions) == begins_at
    assert harness.begin() == begins_at, "so it was noted"
    harness = Harness(tmp_path, monkeypatch, "latest")
    assert harness.begin(appeared={"t"}, offline_partitions=[P1]) == {P0: 40, P1: 0}


def test_one_that_may_not_be_seen_any_more_is_left_to_its_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> LedOffsets:
        raise Refused("topic t is hidden")

    with monkeypatch.context() as hidden:
        hidden.setattr(FakeCluster, "led_offsets", refuse)
        harness = Harness(tmp_path, hidden, "latest")
        assert harness.begin() == {P0: END_UNKNOWN, P1: END_UNKNOWN}
        assert Harness(tmp_path, hidden, "latest").begin(appeared={"t"}) == {P0: 0, P1: 0}


def test_what_may_have_a_position_that_was_not_read_is_not_begun_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Harness(tmp_path, monkeypatch, "latest")
    assert harness.begin(all_is_known=False) == {}
    assert harness.state.starts == {}
    harness.begin()
    assert harness.begin(all_is_known=False) == {P0: 100, P1: 100}, "what was noted holds"


@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_nothing_is_noted_where_the_beginning_is_no_matter_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reset: str
) -> None:
    harness = Harness(tmp_path, monkeypatch, reset)
    assert harness.begin() == {}
    assert harness.state.starts == {}


def test_start_records_are_read_as_they_are_written() -> None:
    state = Assignments()
    state.apply("g", 1, start_key("g", "id"), start_value("t", (3, 0)))
    assert state.starts == {"id": (3, 0)}
    state.apply("g", 2, start_key("g", "id"), None)
    assert state.starts == {}
    with pytest.raises(ValueError, match="assignment record at offset 3: field missing"):
        state.apply("g", 3, start_key("g", "id"), b'{"version":1}')
