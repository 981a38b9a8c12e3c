"""Offsets that are pending on the target for ever, because a broker has forgotten the end of a transaction."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups import stuck_offsets
from k2k_assets.groups.committer import SHARDS, mapper_id
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.stuck_offsets import STUCK_SECONDS, StuckOffsets
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.kafka.group_reader import fetch_offsets
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit, held, open_offset_transaction
from k2k_assets_tests.support.brokers.kafka import SECONDS, admin, create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.model_broker.asking import Asking


def test_groups_are_overdue_after_a_minute_and_once_a_minute() -> None:
    now = [0.0]
    stuck = StuckOffsets(lambda: now[0])
    assert stuck.overdue(["a"]) == []
    now[0] = STUCK_SECONDS / 2
    assert stuck.overdue(["a", "b"]) == []
    now[0] = STUCK_SECONDS
    assert stuck.overdue(["a", "b"]) == ["a"]
    stuck.note_tried(["a"])
    assert stuck.overdue(["a", "b"]) == []
    now[0] *= 1.5
    assert stuck.overdue(["a"]) == [], "and b is settled"
    now[0] = 2 * STUCK_SECONDS
    assert stuck.overdue(["a", "b"]) == ["a"]


def test_groups_that_were_not_tried_come_before_those_that_were() -> None:
    now = [0.0]
    stuck = StuckOffsets(lambda: now[0])
    names = ["a", "b", "c", "d"]
    stuck.overdue(names)
    order: list[str] = []
    for _ in range(4):
        now[0] += STUCK_SECONDS
        first = stuck.overdue(names)[:2]
        stuck.note_tried(first)
        order += first
    assert order == [*names, *names]


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    topic = create_topic(clusters.source_servers, unique("orders"))
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(20)])
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    made = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic],
        features=features, groups={"consumerGroups": unique("readers") + ".*"},
    )  # fmt: skip
    copy(made)
    return made


@contextmanager
def _believing(servers: str) -> Iterator[None]:
    """Lets a broker take what belongs to no open transaction, so that a pending offset is none that ever ends."""
    _set(servers, "transaction.partition.verification.enable", "false")
    try:
        yield
    finally:
        _set(servers, "transaction.partition.verification.enable", None)


def _set(servers: str, name: str, value: str | None) -> None:
    """Sets a config of the only broker; None: as it was by default."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value, incremental_operation=operation)
    (broker_id,) = map(str, admin(servers).list_topics(timeout=SECONDS).brokers)
    broker = ConfigResource(ResourceType.BROKER, broker_id, incremental_configs=[entry])
    for done in admin(servers).incremental_alter_configs([broker]).values():
        done.result(SECONDS)


def _forget_the_end(servers: str, pipeline: Pipeline, group: str, at: TopicPartition) -> None:
    """Leaves an offset of the pipeline's mapper pending of which the coordinator of its transactions knows nothing."""
    name = mapper_id(pipeline.name, pipeline.group, zlib.crc32(group.encode()) % SHARDS)
    with Asking(servers, name) as asking:
        wait_until(lambda: not asking.find(), SECONDS, "the coordinator")
        opened = wait_until(lambda: [each for each in [asking.init()] if not each.error], SECONDS, "a producer id")[0]
        with _believing(servers):
            wait_until(
                lambda: not asking.send_offset(opened.producer, group, at, 1).error, SECONDS, "the broker to believe it"
            )


def _is_pending(target: Cluster, group: str) -> bool:
    return bool(fetch_offsets(target, [group]).groups[group].unstable)


@pytest.mark.integration
@pytest.mark.own_clusters
def test_what_the_mapper_has_left_pending_is_ended_and_what_others_have_is_not(
    clusters: KafkaSandbox, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    (topic,) = pipeline.selection.literal or ()
    at = TopicPartition(topic, 0)
    prefix = str(pipeline.groups.consumer_groups).removesuffix(".*")
    stuck, first, others = (f"{prefix}-{name}" for name in ("stuck", "first", "others"))
    for group in (stuck, others):
        commit(clusters.source_servers, group, {at: 7})
        commit(clusters.target_servers, group, {at: 3}, "k2k_1.1")
    commit(clusters.source_servers, first, {at: 7})
    for group in (stuck, first):
        _forget_the_end(clusters.target_servers, pipeline, group, at)
    application = open_offset_transaction(clusters.target_servers, others, {at: 5})
    with both_clusters(pipeline) as (source, target), Poller(pipeline, source, target) as poller:
        poller.start()
        assert poller.poll().failed.keys() == {stuck, first, others}
        assert _is_pending(target, stuck), "a new mapper's claim ends it not"
        monkeypatch.setattr(stuck_offsets, "STUCK_SECONDS", 0.0)
        assert poller.poll().failed.keys() == {stuck, first, others}
        monkeypatch.undo()
        # The markers come after the answer.
        wait_until(lambda: not any(_is_pending(target, group) for group in (stuck, first)), SECONDS, "the ends")
        assert _is_pending(target, others)
        result = poller.poll()
        assert result.committed == {stuck, first}
        assert result.failed.keys() == {others}
        poller.await_visible(result)
        assert [held(clusters.target_servers, group)[at][0] for group in (stuck, first)] == [7, 7]
        application.commit_transaction(SECONDS)
        wait_until(lambda: not _is_pending(target, others), SECONDS, "the application's offsets to be there")
    assert held(clusters.target_servers, others)[at][0] == 5
