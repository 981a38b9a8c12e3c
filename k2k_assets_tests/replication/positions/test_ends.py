"""Where partitions begin and end: markers, aborted records, nothing at all, deleted records, open transactions."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver import progress as progress_module
from k2k_assets.replication.driver.events import on_progress
from k2k_assets.replication.driver.progress import Progress
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    OpenTransaction,
    create_topic,
    delete_records,
    end_offsets,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.brokers.log_segments import logged_batches
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_exact_mappings,
    assert_same_content,
    commit_records,
    copy,
    mapping_records,
)
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline

pytestmark = pytest.mark.integration


def pipeline_for(
    clusters: KafkaSandbox, directory: Path, topics: list[str], mode: str = "enabled", reset: str | None = None
) -> Pipeline:
    consumer = {"group.id": unique("k2k.g"), **({"auto.offset.reset": reset} if reset else {})}
    return make_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        topics,
        features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        consumer=consumer,
    )


@pytest.mark.slow
@MODES
def test_markers_aborted_records_and_empty_partitions_leave_no_lag(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("ends"), 4)
    produce(source, topic, [b"a", b"b"], 0, unique("tx"))  # ends in a marker
    produce(source, topic, [b"never"] * 5, 1, abort=True)  # only aborted
    produce(source, topic, [b"%d" % i for i in range(20)], 2)
    delete_records(source, topic, 2, 15)  # begins at 15; partition 3 stays empty
    pipeline = pipeline_for(clusters, tmp_path, [topic], mode)

    outcome = copy(pipeline).topics[topic]

    ends = end_offsets(source, topic)
    assert ends == {0: 3, 1: 6, 2: 20, 3: 0}
    assert {p: o.position for p, o in outcome.partitions.items()} == ends
    assert {p: o.start for p, o in outcome.partitions.items()} == {0: 0, 1: 0, 2: 15, 3: 0}
    assert outcome.lag == 0
    assert outcome.records == assert_same_content(source, topic, target) == 7
    assert_exact_mappings(pipeline, source, target, topic)
    covered = {(m.partition, m.covered_from, m.covered_to, bool(m.targets)) for m in mapping_records(pipeline, target)}
    assert (1, 0, 6, False) in covered, "nothing went there, and that is known"
    assert copy(pipeline).topics[topic].records == 0


def test_an_open_source_transaction_holds_the_end_and_is_named(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("held"))
    produce(source, topic, [b"a", b"b"])
    hanging = OpenTransaction(source, topic, [b"c"])
    produce(source, topic, [b"d", b"e"])
    pipeline = pipeline_for(clusters, tmp_path, [topic])

    bounded = copy(pipeline).topics[topic].partitions[0]
    assert (bounded.position, bounded.readable_end, bounded.lag, bounded.records) == (2, 2, 0, 2)

    monkeypatch.setattr(progress_module, "HELD_WARNING_SECONDS", 0.5)
    at = TopicPartition(topic, 0)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "k2k.replication"):
        running = Running(pipeline, 1)
        wait_until(lambda: "is held at offset 2" in caplog.text, SECONDS, "the warning")
    assert f"{topic}-0 on the source is held at offset 2 by an open transaction" in caplog.text
    assert "(3 offsets wait behind it)" in caplog.text
    assert running.progress is not None
    held_since = running.progress.partitions[at].held_since
    assert held_since is not None
    assert began <= held_since <= time.monotonic()

    hanging.commit()
    wait_until(lambda: running.copied() == 3, SECONDS, "what was held to be copied")
    wait_until(lambda: running.progress.partitions[at].held_since is None, SECONDS, "the hold to end")  # type: ignore[union-attr]
    running.stop.set()
    running.join()
    assert running.error is None
    assert [r.value for r in read_all(target, topic)] == [b"a", b"b", b"c", b"d", b"e"]
    assert_exact_mappings(pipeline, source, target, topic)


def test_starting_at_the_latest_is_remembered_and_partitions_that_come_later_lose_nothing(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    """The start is committed before anything is copied, so what is written after it is never skipped."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("latest"))
    produce(source, topic, [b"old"] * 4)
    pipeline = pipeline_for(clusters, tmp_path, [topic], reset="latest")

    assert copy(pipeline).topics[topic].records == 0
    produce(source, topic, [b"new"] * 3)
    second = copy(pipeline).topics[topic]

    first_record, *_, last_record = commit_records(pipeline, target)
    assert (first_record.kind, first_record.position, first_record.records) == ("start", 4, 0)
    assert (last_record.kind, last_record.position) == ("release", 7)
    assert (second.partitions[0].start, second.records) == (4, 3)
    assert [r.value for r in read_all(target, topic)] == [b"new"] * 3
    assert mapping_records(pipeline, target)[0].covered_from == 4


def test_without_a_position_and_no_reset_nothing_is_copied(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("none"))
    produce(clusters.source_servers, topic, [b"a"])
    pipeline = pipeline_for(clusters, tmp_path, [topic], reset="none")
    with pytest.raises(Refused, match=rf"{topic}-0 has no committed position .*auto\.offset\.reset"):
        copy(pipeline)
    assert read_all(clusters.target_servers, topic) == []
    assert commit_records(pipeline, clusters.target_servers) == []


def test_observers_see_positions_rise_to_the_end(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("seen"), 2)
    for partition in range(2):
        produce(clusters.source_servers, topic, [b"x" * 10] * 30, partition)
    seen: list[tuple[Progress, str]] = []
    pipeline = pipeline_for(clusters, tmp_path, [topic])
    copy(pipeline, listener=on_progress(lambda progress: seen.append((progress, threading.current_thread().name))))
    last = seen[-1][0]
    size = 300
    if pipeline.transport.form != "records":
        size = sum(len(batch.payload) for batch in logged_batches(clusters.source, topic))
    assert {tp: (p.position, p.readable_end, p.records, p.bytes, p.lag) for tp, p in last.partitions.items()} == {
        TopicPartition(topic, partition): (30, 30, 30, size, 0) for partition in range(2)
    }
