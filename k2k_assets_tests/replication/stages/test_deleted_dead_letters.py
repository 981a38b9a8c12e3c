"""A topic for dead letters that is deleted while records are copied: a stop in time, and nothing lost behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reasons.records import DeadLettersDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    Record,
    create_topic,
    delete_topic,
    produce,
    read_all,
    unique,
)
from k2k_assets_tests.support.copies.copying import Running, copy
from k2k_assets_tests.support.copies.pipelines import MODES
from k2k_assets_tests.support.copies.transformed import assert_transformed, order, transforming

pytestmark = [pytest.mark.integration, pytest.mark.slow]
BAD = Record(b"k", b"no JSON")


def rules(failing: str, dead: str) -> list[dict[str, Any]]:
    mask = [{"value": "customer.email", "with": "***"}]
    return [{"pattern": failing, "mask": mask, "onError": "deadLetter", "deadLetters": dead}]


@MODES
@pytest.mark.parametrize("remedy", ["a start creates it", "somebody creates it"])
def test_the_topics_that_need_it_stop_in_time_and_go_on_where_they_were(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, remedy: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    failing, other = (create_topic(source, unique(name)) for name in ("orders", "others"))
    dead = unique("dead")
    _, pipeline = transforming(clusters, tmp_path, [failing, other], mode, rules(failing, dead))
    produce(source, failing, [order(1), BAD])
    produce(source, other, [order(1)])
    running = Running(pipeline, 1)
    running.await_copied(2)
    wait_until(lambda: len(read_all(target, dead)) == 1, SECONDS, "the first dead letter")

    delete_topic(target, dead)
    produce(source, failing, [order(2), order(3)])
    wait_until(lambda: len(read_all(target, failing)) == 3, SECONDS, "what needs no dead letter to be copied")
    produce(source, failing, [order(4), BAD._replace(key=b"after"), order(5)])
    at = TopicPartition(failing, 0)
    words = wait_until(lambda: running.told(at), 90, "the topic to be stopped", interval=0.2) or ""
    assert f"the topic {dead} was deleted on the target cluster" in words
    assert f"Create {dead}" in words
    produce(source, other, [order(6)] * 5)
    wait_until(lambda: len(read_all(target, other)) == 6, 90, "the other topic to go on")
    running.end()
    assert running.outcome is not None
    assert running.outcome.stopped.keys() == {failing}
    (reason,) = running.outcome.stopped[failing].values()
    assert isinstance(reason, DeadLettersDeleted)
    assert (reason.topic, reason.dead_letters) == (failing, dead)

    if remedy == "somebody creates it":
        create_topic(target, dead)
    assert copy(pipeline).stopped == {}
    exact = mode == "enabled"
    keys = [record.key for record in read_all(target, dead)]
    assert keys == [b"after"] if exact else set(keys) == {b"after"}

    def through(record: Any) -> Any:
        value = record.value or b""
        if value == BAD.value:
            return None
        email = value.split(b'"email": "')[1].split(b'"')[0]
        return record._replace(value=value.replace(email, b"***").replace(b": ", b":").replace(b", ", b","))

    assert_transformed(clusters, pipeline, failing, through, once=exact)
