"""G7 when a permission is revoked during a copy: that topic stops, and the others continue."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reason import render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.replication.slot.commit import committer
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.permissions.permissions_fixture import PermissionsFixture
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.copies.copying import Running, assert_same_content, copy
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration


class Copying:
    """Two topics that are copied all the time by a user with all the rights that it needs."""

    def __init__(self, clusters: KafkaSandbox, folder: Path, exactly_once: bool) -> None:
        self.stage = PermissionsFixture(clusters, folder)
        self.topics = [kafka.create_topic(self.stage.servers("source"), kafka.unique("revoked")) for _ in range(2)]
        path = self.stage.pipeline_file(self.topics, exactly_once)
        self.pipeline: Pipeline = load_pipeline([path])
        self._rights = self.stage.acls(path, "replication")
        self.stage.grant(self._rights)
        self.write()
        self.running = Running(self.pipeline, 1)
        self.running.await_copied(4)

    def write(self, *topics: str) -> None:
        """Two records to each topic, or to some."""
        for topic in topics or self.topics:
            kafka.produce(self.stage.servers("source"), topic, [b"1", b"2"], 0)

    def revoke(self, role: str, topic: str, *operations: str) -> str:
        """Takes rights on a topic away, all of them by default; returns how it is said that Write is missing."""
        unwanted = {
            a
            for a in self._rights[role]
            if a.name == topic and (not operations or AclOperation(a.operation).name in operations)
        }
        assert unwanted
        self.stage.grant({**self._rights, role: self._rights[role] - unwanted})
        return f"does not allow User:{self.stage.user} to Write the topic {topic}"

    def give_back(self) -> None:
        """All rights again."""
        self.stage.grant(self._rights)

    def stopped(self) -> dict[str, str]:
        """What was stopped, with the reason."""
        progress = self.running.progress
        partitions = progress.partitions.items() if progress else ()
        return {tp.topic: render(each.stopped) for tp, each in partitions if each.stopped}

    def assert_copied(self) -> None:
        """Both topics hold on the target what they hold on the source."""
        for topic in self.topics:
            copied = self.pipeline.routing.target_topic(topic)
            assert_same_content(self.stage.servers("source"), topic, self.stage.servers("target"), copied)


@pytest.mark.slow
@pytest.mark.parametrize("exactly_once", [True, *in_storms((False,))])
def test_a_topic_that_may_not_be_written_any_more_stops(
    secure_clusters: KafkaSandbox, tmp_path: Path, exactly_once: bool
) -> None:
    copying = Copying(secure_clusters, tmp_path, exactly_once)
    first, other = copying.topics
    said = copying.revoke("target", copying.pipeline.routing.target_topic(first), "WRITE")
    copying.write()
    wait_until(copying.stopped, 120, "the topic to be stopped")
    wait_until(lambda: copying.running.positions()[TopicPartition(other, 0)] == 4, 120, "the other topic to be copied")
    ((topic, reason),) = copying.stopped().items()
    assert topic == first
    assert said in reason
    assert "k2k acls" in reason
    copying.running.end()
    copying.give_back()
    assert not copy(copying.pipeline, cores=1).stopped
    copying.assert_copied()


@pytest.mark.parametrize("role", ["target", *in_storms(("source",))])
def test_an_idle_topic_on_which_all_rights_are_gone_stops_alone(
    secure_clusters: KafkaSandbox, tmp_path: Path, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "_TOPICS_SECONDS", 0.5)
    copying = Copying(secure_clusters, tmp_path, exactly_once=True)
    first, other = copying.topics
    copying.revoke(role, first if role == "source" else copying.pipeline.routing.target_topic(first))
    wait_until(copying.stopped, 120, "the topic to be stopped")
    copying.write(other)
    wait_until(lambda: copying.running.positions()[TopicPartition(other, 0)] == 4, 120, "the other topic to be copied")
    ((topic, reason),) = copying.stopped().items()
    assert topic == first
    assert "k2k acls" in reason
    copying.running.end()


@pytest.mark.slow
@pytest.mark.parametrize("exactly_once", [True, *in_storms((False,))])
def test_while_progress_may_not_be_written_nothing_is_copied_and_it_says_so(
    secure_clusters: KafkaSandbox, tmp_path: Path, exactly_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="k2k.replication")
    copying = Copying(secure_clusters, tmp_path, exactly_once)
    said = copying.revoke("target", copying.pipeline.coordination.commit.topic, "WRITE")
    copying.write()

    def sessions() -> int:
        return sum(said in record.getMessage() for record in caplog.records)

    wait_until(lambda: sessions() >= 3, 120, "three sessions that end with the reason")
    assert not copying.stopped()
    copying.give_back()
    wait_until(lambda: set(copying.running.positions().values()) == {4}, 120, "both topics to be copied")
    copying.running.end()
    if exactly_once:
        copying.assert_copied()


@pytest.mark.slow
@pytest.mark.parametrize("which", ["assignment", *in_storms(("commit",))])
def test_while_a_control_topic_may_not_even_be_seen_it_is_waited_for(
    secure_clusters: KafkaSandbox, tmp_path: Path, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="k2k.replication")
    copying = Copying(secure_clusters, tmp_path, exactly_once=True)
    coordination = copying.pipeline.coordination
    copying.revoke("target", (coordination.assignment if which == "assignment" else coordination.commit).topic)
    copying.write()

    def sessions() -> int:
        return sum("k2k acls" in record.getMessage() for record in caplog.records)

    wait_until(lambda: sessions() >= 3, 120, "three sessions that end with the reason")
    assert not copying.stopped()
    copying.give_back()
    wait_until(lambda: set(copying.running.positions().values()) == {4}, 120, "both topics to be copied")
    copying.running.end()
    copying.assert_copied()
