"""Cases only of at-least-once that no fault on real brokers causes for certain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.core.stops.reason import render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.replication.slot.start.start_checks import resolve_starts
from k2k_assets.transport.errors import Fatal
from k2k_assets.transport.librdkafka.data_producer import DataProducer
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.plans import COMMIT_TOPIC_ID, slot_plan

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Recorded:
    """A producer that notes what is asked of it, and fails for good when a test says so."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.failed = False

    def flush(self, timeout: float) -> int:
        if self.failed and "purge" not in self.steps:
            raise KafkaException(KafkaError(KafkaError._FATAL, "out of order", fatal=True))
        self.steps.append("flush")
        return 0

    def purge(self, in_queue: bool = True, in_flight: bool = True) -> None:
        self.steps.append("purge" if in_flight else "purge what has not left")

    def __len__(self) -> int:
        return 0


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """All producers, the newest last."""
    producers: list[Recorded] = []

    def new(*_: object) -> Recorded:
        producers.append(Recorded())
        return producers[-1]

    monkeypatch.setattr(clients, "producer", new)
    return producers


def pipeline(directory: Path, mode: str) -> Any:
    return make_pipeline(directory, "a:1", "b:1", ["t"], features={"exactlyOnce": mode})


@pytest.mark.librdkafka
@pytest.mark.parametrize(
    ("taken", "steps"),
    [((), ["flush"]), ((P0,), ["flush"]), ((P0, P1), ["purge what has not left", "flush"])],
)
def test_what_is_queued_at_the_end_has_a_last_chance_unless_others_copy_all_of_it(
    tmp_path: Path, made: list[Recorded], taken: tuple[TopicPartition, ...], steps: list[str]
) -> None:
    """They read it from the source themselves: it would come twice, behind theirs."""
    slot = Slot(slot_plan(pipeline(tmp_path, "disabled"), {P0: 1, P1: 1}))
    slot._memory.claims.superseded_by.update(dict.fromkeys(taken, "another instance"))
    slot._close_sinks()
    assert made[-1].steps == steps


def test_a_producer_that_failed_for_good_gives_up_all_before_another_one_sends(made: list[Recorded]) -> None:
    """What the old one sent late would come behind what the new one has sent."""
    data = DataProducer({})
    made[0].failed = True
    with pytest.raises(Fatal):
        data.drain(1)
    assert made[0].steps == ["purge", "flush"]
    data.drain(1)
    assert (len(made), made[1].steps) == (2, ["flush"])


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_no_position_in_a_log_that_has_lost_records(tmp_path: Path, mode: str) -> None:
    """It may have been copied already: that is to be said, or it is copied again."""
    plan = slot_plan(pipeline(tmp_path, mode), {P0: 9})
    source = FakeCluster({"t": ("s-t", 2)}, starts={P0: 4}, ends={P0: 9})
    target = FakeCluster({"t": ("t-t", 2), plan.pipeline.coordination.commit.topic: (COMMIT_TOPIC_ID, 1)}, end=10**6)
    starts = resolve_starts(plan, (), CommitLog(incomplete=True), source, target)  # type: ignore[arg-type]
    if mode == "enabled":
        assert "has lost records to retention" in render(starts.stopped[P0])
    else:
        assert (starts.stopped, starts.states[P0].next) == ({}, 4)
