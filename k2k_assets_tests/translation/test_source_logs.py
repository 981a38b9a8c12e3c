"""Up to where the log of a source is the one that was copied, where its leader cannot tell in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.kafka.groups import CommittedOffset, GroupOffsets
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation import source_logs
from k2k_assets.translation.log_ends import NOT_KNOWN
from k2k_assets.translation.source_logs import SourceLogs
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.brokers.lossy_source import LossySource, lossy_broker
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import commit_record

pytestmark = pytest.mark.integration


@pytest.mark.slow
@pytest.mark.parametrize("written_since", [0, 2, 9])
def test_where_a_log_was_cut_off_is_known_however_long_it_is_now(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_since: int
) -> None:
    with lossy_broker(tmp_path) as broker:
        lossy, topic = LossySource(broker), create_topic(broker.servers, unique("orders"))
        lossy.write(topic, "kept", 5)
        lossy.mark(topic)
        lossy.write(topic, "lost", 4)
        lossy.lose()
        if written_since:
            lossy.write(topic, "new", written_since)
        pipeline = make_pipeline(tmp_path, lossy.servers, clusters.target_servers, [topic])
        with Cluster("source", {"bootstrap.servers": lossy.servers}) as source:
            at, logs = TopicPartition(topic, 0), SourceLogs(pipeline, source)
            assert logs.ends([at], {at: _copied(at, 9, 0)}).offsets == {at: 5}
            lossy.write(topic, "later", 1)
            with monkeypatch.context() as patch:
                if written_since:  # what was found is not asked again; behind the end nothing was found yet
                    patch.setattr(logs, "_validated", Mock(side_effect=AssertionError))
                assert logs.ends([at], {at: _copied(at, 9, 0)}).offsets == {at: 5}


@pytest.mark.slow
def test_what_groups_have_read_is_asked_once_for_each_leader_epoch(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy has gone on under the new epoch. Groups that stand where the log is what it was cost nothing more."""
    with lossy_broker(tmp_path) as broker:
        lossy, topic = LossySource(broker), create_topic(broker.servers, unique("orders"))
        lossy.write(topic, "kept", 5)
        lossy.mark(topic)
        lossy.write(topic, "lost", 4)
        lossy.lose()
        lossy.write(topic, "new", 9)
        epoch = lossy.epoch(topic)
        pipeline = make_pipeline(tmp_path, lossy.servers, clusters.target_servers, [topic])
        with Cluster("source", {"bootstrap.servers": lossy.servers}) as source:
            at, logs = TopicPartition(topic, 0), SourceLogs(pipeline, source)
            copied = {at: _copied(at, 14, epoch, source_was_cut=True)}
            agreeing = [_standing(at, position, 0) for position in range(6)] + [
                _standing(at, 14, epoch), _standing(at, 9, None)
            ]  # fmt: skip
            asked = Mock(side_effect=logs._validated)
            monkeypatch.setattr(logs, "_validated", asked)
            assert logs.ends([at], copied, agreeing).read_to == {}
            assert asked.call_count == 1
            for _ in range(2):
                found = logs.ends([at], copied, [*agreeing, _standing(at, 7, 0), _standing(at, 9, 0)])
                assert (found.offsets, found.read_to) == ({at: 14}, {at: {0: 5}})
            assert asked.call_count == 1, "it has told where the epoch ends"
            # Of an epoch that the log has not reached nothing was read there.
            assert logs.ends([at], copied, [_standing(at, 3, epoch + 1)]).read_to == {at: {epoch + 1: NOT_KNOWN}}
            behind = {at: _copied(at, 5, 0, source_was_cut=True)}
            assert logs.ends([at], behind, [_standing(at, 9, 0)]) == ({at: 14}, {}, {at: {0: 5}})


def test_where_no_log_was_cut_off_groups_may_commit_an_epoch_that_is_long_past(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some clients do, in good health: they keep the epoch with which they began."""
    topic = create_topic(clusters.source_servers, unique("orders"))
    pipeline = make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])
    at = TopicPartition(topic, 0)
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(9)], 0)
    with Cluster("source", {"bootstrap.servers": clusters.source_servers}) as source:
        logs = SourceLogs(pipeline, source)
        monkeypatch.setattr(logs, "_validated", Mock(side_effect=AssertionError))
        monkeypatch.setattr(source, "led_ends", lambda _: (LedOffsets({at: 9}, {}), {at: 3}))
        assert logs.ends([at], {at: _copied(at, 9, 3)}, [_standing(at, 9, 0)]).read_to == {}


def _copied(at: TopicPartition, position: int, epoch: int | None, **more: Any) -> CommitRecord:
    return commit_record(at, position, leader_epoch=epoch, **more)


def _standing(at: TopicPartition, position: int, epoch: int | None) -> GroupOffsets:
    return GroupOffsets("g", {at: CommittedOffset(position, "", epoch)})


def test_what_cannot_be_asked_is_not_known_and_asked_again(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no cut-off at 0. Here the leader does not know the epoch of what was copied yet."""
    monkeypatch.setattr(source_logs, "_SECONDS", 0.3)
    topic = create_topic(clusters.source_servers, unique("orders"))
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(9)], 0)
    at, later = TopicPartition(topic, 0), 5
    pipeline = make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])
    with Cluster("source", {"bootstrap.servers": clusters.source_servers}) as source:
        logs = SourceLogs(pipeline, source)
        for _ in range(2):
            assert logs.ends([at], {at: _copied(at, 9, later)}).offsets == {at: NOT_KNOWN}
        assert logs.ends([at], {at: _copied(at, 9, 0)}).offsets == {at: 9}
        assert logs.ends([at], {}).offsets == {at: 9}
