"""What the instruments of a replication tell, from its events alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.pause_records import Pause
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.replication.driver.events import (
    Committed,
    GenerationStarted,
    HandedOver,
    PartitionClaimed,
    PartitionStopped,
    ProgressRead,
)
from k2k_assets.replication.driver.progress import PartitionProgress, Progress
from k2k_assets.telemetry.instruments import CopyInstruments
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.telemetry.pages import named_in
from k2k_assets_tests.telemetry.readings import Labels, Reading

ORDERS, RETURNS = TopicPartition("orders", 0), TopicPartition("returns", 1)


class Metrics(Reading):
    """Instruments, and what a reader finds in them."""

    def __init__(self, directory: Path, seconds: Mapping[TopicPartition, float] | None = None, **sections: Any) -> None:
        self.pipeline = make_pipeline(directory, "a:1", "b:1", ["orders", "returns"], **sections)
        super().__init__(self.pipeline.name)
        self.instruments = CopyInstruments(self.meter, self.pipeline, lambda _: seconds or {})


def at(tp: TopicPartition, **more: str) -> Labels:
    return frozenset({"topic": tp.topic, "partition": tp.partition, **more}.items())


def commit(tp: TopicPartition, records: int) -> Committed:
    return Committed(tp, 7, 7, records, 100 * records, 1, 3, 0, 0)


def test_commits_are_counted_by_partition(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    for tp, records in ((ORDERS, 3), (ORDERS, 4), (RETURNS, 0)):
        metrics.instruments.listen(commit(tp, records))
    found = metrics.found()
    assert found["k2k.records"] == {at(ORDERS): 7, at(RETURNS): 0}
    assert found["k2k.bytes"] == {at(ORDERS): 700, at(RETURNS): 0}
    assert found["k2k.transactions"] == {at(ORDERS): 2, at(RETURNS): 1}
    assert found["k2k.offset_ranges"] == {at(ORDERS): 2, at(RETURNS): 1}


def test_progress_is_told_as_far_as_it_is_known(tmp_path: Path) -> None:
    stop = SourceDeleted(RETURNS.topic)
    partitions = {
        ORDERS: PartitionProgress(5, 9, 12, form="records: partitioner is fnv1a"),
        RETURNS: PartitionProgress(2, END_UNKNOWN, END_UNKNOWN, stopped=stop),
    }
    metrics = Metrics(tmp_path, {ORDERS: 1.5})
    metrics.instruments.listen(ProgressRead(Progress(partitions, 0.0, {"orders": Pause("ann", 0)})))
    found = metrics.found()
    assert found["k2k.position"] == {at(ORDERS): 5, at(RETURNS): 2}
    assert found["k2k.source.end"] == {at(ORDERS): 9}
    assert found["k2k.lag"] == {at(ORDERS): 4}
    assert found["k2k.lag.seconds"] == {at(ORDERS): 1.5}
    assert found["k2k.partition.stopped"] == {at(ORDERS): 0, at(RETURNS, code=stop.code): 1}
    forms = {frozenset({("form", "batches")}): 0, frozenset({("form", "records")}): 1}
    assert found["k2k.transport.partitions"] == forms
    assert found["k2k.topic.paused"] == {frozenset({("topic", "orders")}): 1, frozenset({("topic", "returns")}): 0}


def test_a_new_generation_begins_with_no_claims(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path)
    assert "k2k.generation" not in metrics.found()
    for event in (GenerationStarted(3, 2, 1), PartitionClaimed(ORDERS, 3, 0), PartitionClaimed(RETURNS, 3, 0)):
        metrics.instruments.listen(event)
    nothing: Labels = frozenset()
    found = metrics.found()
    assert (found["k2k.partitions"], found["k2k.generation"], found["k2k.slots"]) == (
        {nothing: 2},
        {nothing: 3},
        {nothing: 1},
    )
    metrics.instruments.listen(PartitionStopped(RETURNS, SourceDeleted(RETURNS.topic)))
    assert metrics.found()["k2k.partitions"] == {nothing: 1}, "a stopped partition is released"
    metrics.instruments.listen(HandedOver({ORDERS: "host-2"}, True))
    assert metrics.found()["k2k.partitions"] == {nothing: 0}
    metrics.instruments.listen(PartitionClaimed(ORDERS, 3, 0))
    metrics.instruments.listen(GenerationStarted(4, 2, 2))
    assert metrics.found()["k2k.partitions"] == {nothing: 0}


@pytest.mark.parametrize("prefix", ["k2k.", "acme_"])
def test_names_begin_as_the_file_says(tmp_path: Path, prefix: str) -> None:
    metrics = Metrics(tmp_path, metrics={"prefix": {"assignment": prefix}})
    metrics.instruments.listen(commit(ORDERS, 1))
    assert f"{prefix}records" in metrics.found()


def test_the_page_names_each_metric_and_no_other(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, {ORDERS: 0.0})
    for event in (
        commit(ORDERS, 1),
        GenerationStarted(3, 1, 1),
        ProgressRead(Progress({ORDERS: PartitionProgress(5, 9, 12)}, 0.0)),
    ):
        metrics.instruments.listen(event)
    assert named_in("What there is of a copy") == metrics.found().keys()
