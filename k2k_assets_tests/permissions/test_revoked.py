"""G7 where a permission is taken away while it copies: that topic stops, and the others go on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from k2k_assets.deadline import wait_until
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topic_partition import TopicPartition
from k2k_assets_tests.permissions.stage import Stage
from k2k_assets_tests.support import kafka
from k2k_assets_tests.support.copying import Running, assert_same_content, copy

pytestmark = pytest.mark.integration


class Copying:
    """Two topics that are copied all the time by a user with all the rights that it needs."""

    def __init__(self, clusters: KafkaSandbox, folder: Path, exactly_once: bool) -> None:
        self.stage = Stage(clusters, folder)
        self.topics = [kafka.create_topic(self.stage.servers("source"), kafka.unique("revoked")) for _ in range(2)]
        path = self.stage.pipeline_file(self.topics, exactly_once)
        self.pipeline: Pipeline = load_pipeline([path])
        self._rights = self.stage.acls(path, "replication")
        self.stage.grant(self._rights)
        self.write()
        self.running = Running(self.pipeline, 1)
        self.running.await_copied(4)

    def write(self) -> None:
        """Two records to each topic."""
        for topic in self.topics:
            kafka.produce(self.stage.servers("source"), topic, [b"1", b"2"], 0)

    def revoke_write(self, topic: str) -> str:
        """Takes one right away; returns how that is said."""
        unwanted = {a for a in self._rights["target"] if a.name == topic and a.operation.name == "WRITE"}
        assert unwanted
        self.stage.grant({**self._rights, "target": self._rights["target"] - unwanted})
        return f"does not allow User:{self.stage.user} to Write the topic {topic}"

    def give_back(self) -> None:
        """All rights again."""
        self.stage.grant(self._rights)

    def stopped(self) -> dict[str, str]:
        """What was stopped, with the reason."""
        progress = self.running.progress
        partitions = progress.partitions.items() if progress else ()
        return {tp.topic: each.stopped for tp, each in partitions if each.stopped}

    def assert_copied(self) -> None:
        """Both topics hold on the target what they hold on the source."""
        for topic in self.topics:
            copied = self.pipeline.routing.target_topic(topic)
            assert_same_content(self.stage.servers("source"), topic, self.stage.servers("target"), copied)


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
def test_a_topic_that_may_not_be_written_any_more_stops(
    secure_clusters: KafkaSandbox, tmp_path: Path, exactly_once: bool
) -> None:
    copying = Copying(secure_clusters, tmp_path, exactly_once)
    first, other = copying.topics
    said = copying.revoke_write(copying.pipeline.routing.target_topic(first))
    copying.write()
    wait_until(copying.stopped, 60, "the topic to be stopped")
    wait_until(lambda: copying.running.positions()[TopicPartition(other, 0)] == 4, 60, "the other topic to be copied")
    ((topic, reason),) = copying.stopped().items()
    assert topic == first
    assert said in reason
    assert "k2k acls" in reason
    copying.running.end()
    copying.give_back()
    assert not copy(copying.pipeline, cores=1).stopped
    copying.assert_copied()


def test_while_progress_may_not_be_written_nothing_is_copied_and_it_says_so(
    secure_clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="k2k.replication")
    copying = Copying(secure_clusters, tmp_path, exactly_once=True)
    said = copying.revoke_write(copying.pipeline.coordination.commit.topic)
    copying.write()
    wait_until(lambda: any(said in record.getMessage() for record in caplog.records), 60, "the reason to be told")
    assert not copying.stopped()
    copying.give_back()
    copying.running.await_copied(8)
    copying.running.end()
    copying.assert_copied()
