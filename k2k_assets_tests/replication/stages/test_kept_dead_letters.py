"""Dead letters of old records outlive the brokers' retention, and topics that do not keep theirs are told of."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    PATIENCE,
    Record,
    client_settings,
    create_topic,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import MODES
from k2k_assets_tests.support.copies.transformed import to_dead_letters, transforming

pytestmark = pytest.mark.integration

DAY = 24 * 3600 * 1000
# Brokers that look for what they may delete all the time; by their default they keep a week.
EAGER = {"log.retention.check.interval.ms": "300", "log.initial.task.delay.ms": "300"}


@pytest.fixture(scope="module")
def eager() -> Iterator[KafkaSandbox]:
    with KafkaSandbox(settings=EAGER) as found:
        yield found


def await_deletions(servers: str) -> None:
    """Waits until the broker has deleted old records twice, and so has looked at all of its topics in between."""
    witness = TopicPartition(create_topic(servers, unique("witness")), 0)
    with Cluster("target", client_settings(servers)) as cluster:
        for written in (1, 2):
            produce(servers, witness.topic, [Record(b"k", b"old", timestamp=month_ago())])
            wait_until(
                lambda end=written: cluster.offsets([witness], "earliest")[witness] == end,  # type: ignore[misc]
                PATIENCE,
                "an old record to be deleted",
            )


def month_ago() -> int:
    return int(time.time() * 1000) - 30 * DAY


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("common", [{}, {"config": {"retention.ms": str(7 * DAY)}}], ids=["default", "a week"])
def test_letters_of_old_records_stay(eager: KafkaSandbox, tmp_path: Path, mode: str, common: dict[str, object]) -> None:
    topic = create_topic(eager.source_servers, unique("orders"), config={"retention.ms": "-1"})
    dead, then = unique("dead"), month_ago()
    produce(eager.source_servers, topic, [Record(b"k%d" % n, b"no JSON", timestamp=then + n) for n in range(3)])
    creation = {"topicCreation": {"replication": {"common": common}}} if common else {}
    _, pipeline = transforming(eager, tmp_path, [topic], mode, to_dead_letters(dead), **creation)
    assert copy(pipeline).stopped == {}
    await_deletions(eager.target_servers)
    letters = read_all(eager.target_servers, dead)
    assert [letter.key for letter in letters] == [b"k0", b"k1", b"k2"]
    told = [dict(letter.headers)["__k2k_error_timestamp"] for letter in letters]
    assert told == [b"%d" % (then + n) for n in range(3)], "the topic's timestamps are the broker's"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "retention.ms=604800000 and message.timestamp.type=CreateTime: letters of records that are older"),
        ({"cleanup.policy": "compact"}, "cleanup.policy=compact: of letters with one key only the last stays"),
        ({"retention.ms": "-1"}, ""),
        ({"message.timestamp.type": "LogAppendTime"}, ""),
    ],
)
def test_a_topic_that_does_not_keep_its_letters_is_told_of(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, config: dict[str, str], words: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    dead = create_topic(clusters.target_servers, unique("dead"), config=config)
    _, pipeline = transforming(clusters, tmp_path, [topic], rules=to_dead_letters(dead))
    with caplog.at_level(logging.WARNING, "k2k.topics"):
        assert copy(pipeline).stopped == {}
    told = [message for message in caplog.messages if dead in message]
    assert len(told) == bool(words)
    assert all(words in message for message in told)
