"""A target that lost copies in an unclean election: no group is moved to where the lost copies were.

```
 source   0 ... 39 | 40 ... 99 |
 target   0 ... 39 |              40 to 99 are lost; what comes next gets their offsets
```
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

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
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker import Broker
from k2k_assets.translation import translate_frame
from k2k_assets.translation.checkpoints import translate_checkpoint
from k2k_assets.translation.translator import translate_offsets
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import SECONDS, OpenTransaction, create_topic, produce, unique
from k2k_assets_tests.support.brokers.lossy_source import LossySource, lossy_broker
from k2k_assets_tests.support.copies.copying import copy, told
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = [pytest.mark.integration, pytest.mark.slow]

POSITIONS = (20, 40, 60, 100)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of this file's own."""
    with lossy_broker(tmp_path_factory.mktemp("target")) as own:
        yield own


def truncated(source: str, target: LossySource, topic: str, path: Path) -> Pipeline:
    """Copies 100 records, of which the target loses 60."""
    pipeline = load_pipeline([path])
    produce(source, topic, [b"kept %d" % n for n in range(40)])
    assert copy(pipeline).stopped == {}
    target.mark(topic)
    produce(source, topic, [b"lost %d" % n for n in range(60)])
    assert copy(pipeline).stopped == {}
    target.lose()
    return pipeline


@MODES
@pytest.mark.parametrize("is_noticed", [True, False], ids=["the copy has stopped", "no copy has noticed it"])
@pytest.mark.parametrize("tried", [0, 10], ids=["nothing came since", "an aborted attempt lies there"])
def test_groups_stay_out_of_what_is_lost(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker, mode: str, is_noticed: bool, tried: int
) -> None:
    source, target = clusters.source_servers, LossySource(broker)
    topic, prefix = create_topic(source, unique("orders")), unique("readers")
    at = TopicPartition(topic, 0)
    path = write_pipeline(
        tmp_path,
        source,
        target.servers,
        [topic],
        features={"exactlyOnce": mode, "offsetMapping": "enabled"},
        groups={"consumerGroups": f"{prefix}.*"},
        consumer={"group.id": unique("k2k")},
    )
    if tried and mode == "disabled":
        pytest.skip("nothing is aborted at least once")
    pipeline = truncated(source, target, topic, path)
    if tried:  # as the transaction leaves it that was under way when the target lost its copies
        OpenTransaction(target.servers, topic, [b"tried %d" % n for n in range(tried)]).abort()
    if is_noticed:
        produce(source, topic, [b"new %d" % n for n in range(100)])
        assert "copies in it are lost" in told(copy(pipeline))[topic]

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
    source, target = clusters.source_servers, LossySource(broker)
    topic = create_topic(source, unique("orders"))
    path = write_pipeline(
        tmp_path,
        source,
        target.servers,
        [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        index={"path": f"{tmp_path}/index"},
    )
    pipeline = truncated(source, target, topic, path)
    with both_clusters(pipeline) as (here, there):
        update_index(spark, pipeline, here, there)
    frame = spark.createDataFrame([(topic, 0, n) for n in POSITIONS], "topic string, partition int, offset long")
    known = [(20, "exact"), (40, "unknown"), (60, "unknown"), (100, "unknown")]
    assert sorted((row.offset, row.state) for row in translate_frame(frame, pipeline).collect()) == known
    produce(source, topic, [b"new %d" % n for n in range(100)])
    assert "copies in it are lost" in told(copy(pipeline))[topic]
    assert sorted((row.offset, row.state) for row in translate_frame(frame, pipeline).collect()) == known


def test_a_mapper_that_runs_sees_a_target_that_lost_copies(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker
) -> None:
    source, target = clusters.source_servers, LossySource(broker)
    topic, group = create_topic(source, unique("orders")), unique("readers")
    at = TopicPartition(topic, 0)
    path = write_pipeline(
        tmp_path,
        source,
        target.servers,
        [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"consumerGroups": group},
        consumer={"group.id": unique("k2k")},
    )
    pipeline = load_pipeline([path])
    produce(source, topic, [b"kept %d" % n for n in range(40)])
    copy(pipeline)
    target.mark(topic)
    produce(source, topic, [b"lost %d" % n for n in range(60)])
    copy(pipeline)
    commit(source, group, {at: 30})
    with both_clusters(pipeline) as (here, there), Poller(pipeline, here, there) as poller:
        poller.start()
        assert poller.poll().lines(group)[0].decision.value == "exact"
        target.lose()
        commit(source, group, {at: 80})
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
