"""The state of each topic."""

from __future__ import annotations

from dataclasses import replace

from k2k_assets.control.pause_records import Pause
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.status.copy_status import CopiedTopic, CopyStatus, copied_topics
from k2k_assets.status.history import CopyHistory
from k2k_assets.status.lag import PartitionLag
from k2k_assets_tests.status.records import commit_record

NOW = 10_000_000


def topic(name: str, seconds: float | None = 0.0, *, stopped: bool = False, copied: int = 0) -> CopiedTopic:
    reasons = {0: SourceDeleted(name)} if stopped else {}
    lag = PartitionLag(0, 0 if seconds == 0 else 5, seconds)
    return CopiedTopic(name, name, {0: lag}, reasons, NOW, copied / 60, [copied])


def test_each_topic_has_the_first_state_that_fits() -> None:
    assert topic("t", 3.0, stopped=True).state == "stopped"
    pause = Pause("anna@ops1", 0)
    assert replace(topic("t", 3.0, stopped=True), paused=pause).state == "stopped"
    assert replace(topic("t", 3.0), paused=pause).state == "paused"
    assert topic("t", 3.0).state == "behind"
    assert topic("t", None).state == "behind"
    assert topic("t", copied=1).state == "active"
    assert topic("t").state == "quiet"


def test_partitions_become_topics() -> None:
    a, b, new = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("new", 0)
    history = CopyHistory()
    for record in (
        commit_record(a, sequence=1, time=NOW - 9),
        commit_record(a, sequence=2, records=6, time=NOW - 5, transport="batches"),
    ):
        history.apply(record)
    lags = {b: PartitionLag(1, 4, 2.0), a: PartitionLag(3, 3, 0.0), new: PartitionLag(0, 7, 1.0)}
    records = {a: history.newest[a], b: commit_record(b, time=NOW - 900, transport="records: as the file says")}
    found = copied_topics(lags, records, {b: SourceDeleted("t")}, {"t": "copy.t", "new": None}, history, NOW)
    assert [each.topic for each in found] == ["new", "t"]
    assert [each.state for each in found] == ["not begun", "stopped"]
    assert [each.form for each in found] == ["", "batches; records: as the file says"]
    assert found[1].target == "copy.t"
    assert list(found[1].partitions) == [0, 1]
    assert list(found[1].stopped) == [1]
    assert (found[1].last_commit, found[1].rate) == (NOW - 5, 6 / 60)
    status = CopyStatus(NOW, found, None)
    assert (status.lag.offsets, status.lag.seconds) == (10, 2.0)
    assert (status.last_commit, status.rate) == (NOW - 5, 6 / 60)
