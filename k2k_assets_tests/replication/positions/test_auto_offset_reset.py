"""G7: `auto.offset.reset` decides where a partition without a position begins; it hides no loss from others."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    OpenTransaction,
    create_topic,
    delete_records,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.copying import Running, assert_same_content, copy, told
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("reset", "mode"), [("latest", "enabled"), *in_storms(("earliest", "enabled"), ("latest", "disabled"))]
)
def test_records_that_are_deleted_before_a_consumer_that_waits_has_read_them(
    clusters: KafkaSandbox, tmp_path: Path, reset: str, mode: str
) -> None:
    """It waits for the end of a transaction when retention takes the transaction's first records."""
    source, target = clusters.source_servers, clusters.target_servers
    bad, good = topics = [create_topic(source, unique(name)) for name in ("bad", "good")]
    pipeline = make_pipeline(
        tmp_path,
        source,
        target,
        topics,
        features={"exactlyOnce": mode},
        consumer={"group.id": unique("group"), "auto.offset.reset": reset},
    )
    assert copy(pipeline).stopped == {}  # with `latest` as well the first record is the first one to copy
    running = Running(pipeline, 1)
    for topic in topics:
        produce(source, topic, [b"a"] * 5)
    running.await_copied(10)

    transaction = OpenTransaction(source, bad, [b"b"] * 5)
    produce(source, bad, [b"c"] * 5)
    delete_records(source, bad, 0, 8)
    transaction.commit()

    at = TopicPartition(bad, 0)
    words = wait_until(lambda: running.told(at), SECONDS, "the stop") or ""
    assert "records 5 to 7 were deleted from the source before they were copied" in words
    assert f"it now starts at 8. To go on without them: k2k-tool set -f FILE -o {bad}:0:earliest" in words
    produce(source, good, [b"b"] * 5)
    wait_until(lambda: len(read_all(target, good)) == 10, SECONDS, "the other topic to go on")
    running.end()
    assert_same_content(source, good, target)
    assert [r.value for r in read_all(target, bad)] == [b"a"] * 5
    again = copy(pipeline)
    assert told(again)[bad] == f"{at}: {words}"
    assert again.topics[bad].partitions[0].position == 5
