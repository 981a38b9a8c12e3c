"""A slot describes its topics with every commit: that must not cost memory."""

from __future__ import annotations

import gc
import sys
from importlib.metadata import version
from typing import Any

import pytest
from confluent_kafka import TopicCollection

from k2k_assets.kafka import clients
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.topic_ids import topic_id
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.brokers.scripted_broker import ScriptedBroker

TRIED = {"2.16.1"}


def holders(topic: Any) -> int:
    """How many hold a topic's `Uuid`, this question aside. Not asked in an `assert`, which holds what it looks at."""
    return sys.getrefcount(topic.topic_id) - 1


def described() -> Any:
    """A topic as the client library describes it."""
    with ScriptedBroker() as broker:
        broker.topic = "described"
        admin = clients.admin({"bootstrap.servers": broker.servers})
        return admin.describe_topics(TopicCollection([broker.topic]), request_timeout=10)[broker.topic].result(10)


def uuids() -> int:
    gc.collect()
    return sum(type(thing).__name__ == "Uuid" for thing in gc.get_objects())


def test_the_client_library_is_one_that_was_tried() -> None:
    found = version("confluent-kafka")
    assert found in TRIED, (
        f"k2k_assets/kafka/topic_ids.py lets a reference go by hand: never tried with confluent-kafka {found}. Run the "
        "other tests of this file, with clusters. If the library keeps no reference too many any more, delete it: "
        "`Cluster.describe` takes `str(topic.topic_id)` then. If all of them pass, add the version to TRIED"
    )


def test_the_reference_that_the_library_keeps_is_let_go_once() -> None:
    topic = described()
    before = holders(topic)
    once, twice = (topic_id(topic), holders(topic)), (topic_id(topic), holders(topic))
    assert before == 2, "the leak is mended: k2k_assets/kafka/topic_ids.py may go"
    assert once == twice == (str(topic.topic_id), 1), "only the topic itself holds it"


def test_a_reference_that_somebody_holds_is_left_alone() -> None:
    topic = described()
    held = topic.topic_id
    before = holders(topic)
    assert topic_id(topic) == str(held)
    after = holders(topic)
    assert after == before


@pytest.mark.integration
def test_describing_topics_leaves_nothing_behind(clusters: KafkaSandbox) -> None:
    topic = create_topic(clusters.source_servers, unique("described"))
    with Cluster("source", {"bootstrap.servers": clusters.source_servers}) as source:
        first = source.describe([topic])[topic].topic_id
        before = uuids()
        assert {source.describe([topic])[topic].topic_id for _ in range(200)} == {first}
        assert uuids() - before < 20
