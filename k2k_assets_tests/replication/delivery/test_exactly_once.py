"""G1: every committed source record is on the target once, in order, with any process killed at any time."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, copy, dying_first
from k2k_assets_tests.support.copies.pipelines import NEVER_TIMED_OUT, make_pipeline
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration

EXACTLY_ONCE = {"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"}
SMALL_BATCHES = {"batchSize": 100}


def write_with_gaps(servers: str, topic: str, partitions: int, batches: int = 4, size: int = 60) -> None:
    """Committed and aborted transactions and plain records in turn: offsets with all kinds of gaps."""
    for partition in range(partitions):
        for batch in range(batches):
            records = [(b"k%d" % i, b"p%d-b%d-%d" % (partition, batch, i)) for i in range(size)]
            produce(servers, topic, records, partition, unique("tx"))
            produce(servers, topic, [b"aborted"] * 7, partition, abort=True)
            produce(servers, topic, [b"p%d-b%d-plain-%d" % (partition, batch, i) for i in range(5)], partition)


@pytest.fixture(scope="module")
def topic_with_gaps(clusters: KafkaSandbox) -> str:
    """Two partitions of 260 committed records each, written once for all tests that only read it."""
    topic = create_topic(clusters.source_servers, unique("killed"), 2)
    write_with_gaps(clusters.source_servers, topic, 2)
    return topic


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "occurrence"),
    [
        ("open", 1),
        ("begin", 1),  # the claim
        ("commit", 2),  # started, nothing copied
        ("write", 2),
        ("settle", 2),
        ("before_commit", 4),
        ("during_commit", 4),
        ("commit", 4),
        *in_storms(("begin", 2), ("begin", 3), ("write_control", 5)),  # the second: the start positions
    ],
)
def test_killed_at_any_step_and_run_again(
    clusters: KafkaSandbox, tmp_path: Path, topic_with_gaps: str, step: str, occurrence: int
) -> None:
    topic, prefix = topic_with_gaps, f"{unique('copy')}."
    pipeline = make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        sink={"prefix": prefix},
        features=EXACTLY_ONCE,
        coordination={"commit": {**SMALL_BATCHES, "syncTimeout": "11 minutes"}},
        producer=NEVER_TIMED_OUT,
    )

    outcome = copy(pipeline, cores=1, runner=dying_first(step, occurrence))

    assert outcome.topics[topic].lag == 0
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers, prefix + topic) == 2 * 4 * 65
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic)


def test_what_is_written_between_two_runs_is_copied_by_the_second(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("twice"), 3)
    pipeline = make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=EXACTLY_ONCE)
    write_with_gaps(clusters.source_servers, topic, 3, batches=1)
    first = copy(pipeline)
    write_with_gaps(clusters.source_servers, topic, 3, batches=1)
    second = copy(pipeline)
    third = copy(pipeline)

    assert [o.topics[topic].records for o in (first, second, third)] == [195, 195, 0]
    assert third.topics[topic].lag == 0
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic)
