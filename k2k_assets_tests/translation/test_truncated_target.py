"""A target that lost copies in an unclean election: no group is moved to where the lost copies were.

```
 source   0 ... 39 | 40 ... 99 |
 target   0 ... 39 |              40 to 99 are lost; what comes next gets their offsets
```
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.overrides.apply import override
from k2k_assets.overrides.request import Request, Wanted
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker import Broker
from k2k_assets.translation import translate_frame
from k2k_assets.translation.checkpoints import translate_checkpoint
from k2k_assets.translation.translator import translate_offsets
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import SECONDS, OpenTransaction, create_topic, produce, unique
from k2k_assets_tests.support.brokers.lossy_source import LossySource, lossy_broker
from k2k_assets_tests.support.copies.copying import copy, told
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.slow]

POSITIONS = (20, 40, 60, 100)
MODES = ("enabled", "disabled")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of this file's own."""
    with lossy_broker(tmp_path_factory.mktemp("target")) as own:
        yield own


@dataclass(frozen=True)
class Copied:
    """A topic that is copied into a broker that may lose its copies, 100 records in two parts."""

    source: str
    target: LossySource
    topic: str
    pipeline: Pipeline

    @classmethod
    def whole(
        cls, clusters: KafkaSandbox, broker: Broker, directory: Path, mode: str = "enabled", **more: Any
    ) -> Copied:
        source, target = clusters.source_servers, LossySource(broker)
        topic = create_topic(source, unique("orders"))
        features = {"exactlyOnce": mode, "offsetMapping": "enabled"}
        pipeline = make_pipeline(directory, source, target.servers, [topic], features=features, **more)
        copied = cls(source, target, topic, pipeline)
        copied.write("kept", 40)
        assert copy(pipeline).stopped == {}
        target.mark(topic)
        copied.write("lost", 60)
        assert copy(pipeline).stopped == {}
        return copied

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def write(self, name: str, count: int) -> None:
        produce(self.source, self.topic, [b"%s %d" % (name.encode(), n) for n in range(count)])

    def notice(self) -> None:
        self.write("new", 100)
        assert "copies in it are lost" in told(copy(self.pipeline))[self.topic]


@pytest.mark.parametrize(
    ("mode", "of_mapper", "is_noticed", "tried"),
    [
        *((mode, mode, is_noticed, 0) for mode, is_noticed in product(MODES, (True, False))),
        *(("enabled", of_mapper, is_noticed, 10) for of_mapper, is_noticed in product(MODES, (True, False))),
        # As long as it was again: only who copies can tell, by what lies right before its last copy's end.
        ("enabled", "enabled", True, 200),
    ],
)
def test_groups_stay_out_of_what_is_lost(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker, mode: str, of_mapper: str, is_noticed: bool, tried: int
) -> None:
    """Whatever the mapper's file says of the delivery mode."""
    prefix = unique("readers")
    copied = Copied.whole(clusters, broker, tmp_path, mode, groups={"consumerGroups": f"{prefix}.*"})
    source, target, topic, at = copied.source, copied.target, copied.topic, copied.at
    features = copied.pipeline.features.model_copy(update={"exactly_once": of_mapper == "enabled"})
    pipeline = copied.pipeline.model_copy(update={"features": features})
    target.lose()
    if tried:  # as the transaction leaves it that was under way when the target lost its copies
        OpenTransaction(target.servers, topic, [b"tried %d" % n for n in range(tried)]).abort()
    if is_noticed:
        copied.notice()

    groups = {position: f"{prefix}-{position}" for position in POSITIONS}
    for position, group in groups.items():
        commit(source, group, {at: position})
    result = sync_once(pipeline)
    said = {position: result.lines(group)[0].decision.value for position, group in groups.items()}
    stands = {position: held(target.servers, group).get(at, (None, ""))[0] for position, group in groups.items()}
    assert said == {20: "exact", 40: "unknown", 60: "unknown", 100: "unknown"}
    start = translate_offsets(pipeline, topic, 0, [20])[0].to_offset
    assert stands == {20: start, 40: None, 60: None, 100: None}
    assert "was truncated at offset" in result.unproven[at]

    rows = translate_offsets(pipeline, topic, 0, POSITIONS)
    assert [row.state for row in rows] == ["exact", "unknown", "unknown", "unknown"]
    checkpoint = translate_checkpoint(pipeline, {at: 60})
    assert not checkpoint.complete


@pytest.mark.spark
def test_a_column_of_offsets_knows_it_too(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker, spark: SparkSession
) -> None:
    """The index was built before; the copy has stopped, and what it tried has made the target long again."""
    copied = Copied.whole(clusters, broker, tmp_path, index={"path": f"{tmp_path}/index"})
    copied.target.lose()
    with both_clusters(copied.pipeline) as (here, there):
        update_index(spark, copied.pipeline, here, there)
    asked = [(copied.topic, 0, n) for n in POSITIONS]
    frame = spark.createDataFrame(asked, "topic string, partition int, offset long")
    known = [(20, "exact"), (40, "unknown"), (60, "unknown"), (100, "unknown")]
    assert sorted((row.offset, row.state) for row in translate_frame(frame, copied.pipeline).collect()) == known
    copied.notice()
    assert sorted((row.offset, row.state) for row in translate_frame(frame, copied.pipeline).collect()) == known


@pytest.mark.spark
def test_a_column_of_offsets_knows_that_the_copy_was_set_back(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker, spark: SparkSession
) -> None:
    """It is asked before the index has read of it. In the places of the lost copies lie other records."""
    copied = Copied.whole(clusters, broker, tmp_path, index={"path": f"{tmp_path}/index"})
    frame = spark.createDataFrame([(copied.topic, 0, n) for n in POSITIONS], "topic string, partition int, offset long")

    def answers() -> dict[int, tuple[int | None, str]]:
        rows = translate_frame(frame, copied.pipeline).collect()
        return {row.offset: (row.target_offset, row.state) for row in rows}

    with both_clusters(copied.pipeline) as (here, there):
        update_index(spark, copied.pipeline, here, there)
        before = answers()
        copied.target.lose()
        copied.notice()
        override(copied.pipeline, here, there, Request((Wanted(copied.topic, 0, 40),), "a test", foreign_records=True))
        assert copy(copied.pipeline).stopped == {}
        assert before[20][0] is not None
        behind = before[20][0] + 20
        assert answers() == {20: before[20]} | dict.fromkeys(POSITIONS[1:], (behind, "ahead")) | {40: (behind, "exact")}
        update_index(spark, copied.pipeline, here, there)
        now = {row.offset: row.to_offset for row in translate_offsets(copied.pipeline, copied.topic, 0, POSITIONS)}
        assert answers() == {position: (offset, "exact") for position, offset in now.items()}


def test_a_mapper_that_runs_sees_a_target_that_lost_copies(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker
) -> None:
    group = unique("readers")
    copied = Copied.whole(clusters, broker, tmp_path, groups={"consumerGroups": group})
    commit(copied.source, group, {copied.at: 30})
    with both_clusters(copied.pipeline) as (here, there), Poller(copied.pipeline, here, there) as poller:
        poller.start()
        assert poller.poll().lines(group)[0].decision.value == "exact"
        copied.target.lose()
        commit(copied.source, group, {copied.at: 80})
        assert first_answer(poller).lines(group)[0].decision.value == "unknown"


def first_answer(poller: Poller) -> PollResult:
    """The first poll that a broker answers that has just started: its coordinators load their groups first."""
    deadline = Deadline(SECONDS)
    while True:
        try:
            return poller.poll()
        except ClusterUnreachable:
            if deadline.expired():
                raise
            time.sleep(0.2)
