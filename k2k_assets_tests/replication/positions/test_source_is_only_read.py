"""G5: a copy leaves no trace on the source: no topic, group, offset or config."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Proxy
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.own_clusters]

# A broker makes it when the first client of its life asks for a group's coordinator; librdkafka's consumer asks.
_KAFKAS_OWN = "__consumer_offsets"


class State(NamedTuple):
    """What there is on a cluster that a copy might change."""

    topics: dict[str, int]
    groups: set[str]
    configs: dict[str, dict[str, str | None]]
    ends: dict[int, int]


def _state(servers: str, topic: str) -> State:
    admin = kafka.admin(servers)
    groups = admin.list_consumer_groups(request_timeout=kafka.SECONDS).result(kafka.SECONDS)
    asked = [ConfigResource(ResourceType.TOPIC, topic)]
    configs = {
        str(resource): {name: entry.value for name, entry in future.result(kafka.SECONDS).items()}
        for resource, future in admin.describe_configs(asked, request_timeout=kafka.SECONDS).items()
    }
    return State(
        topics={name: count for name, count in kafka.topics(servers).items() if name != _KAFKAS_OWN},
        groups={group.group_id for group in groups.valid},
        configs=configs,
        ends=kafka.end_offsets(servers, topic),
    )


@pytest.mark.parametrize("exactly_once", ["enabled", "disabled"])
def test_a_copy_leaves_no_trace(clusters: KafkaSandbox, tmp_path: Path, exactly_once: str) -> None:
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("read"), 2)
    for partition in range(2):
        kafka.produce(clusters.source_servers, topic, [b"%d" % i for i in range(500)], partition, kafka.unique("tx"))
    pipeline = make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": exactly_once, "offsetMapping": "enabled"},
    )
    before = _state(clusters.source_servers, topic)

    outcome = copy(pipeline)

    assert outcome.topics[topic].records == 1000
    assert _state(clusters.source_servers, topic) == before


@pytest.mark.parametrize(("form", "asks"), [("batches", False), ("records", True)])
def test_whether_the_source_is_asked_for_a_coordinator(
    clusters: KafkaSandbox, tmp_path: Path, form: str, asks: bool
) -> None:
    """The question makes a topic on a source that no group has used; librdkafka's consumer asks it."""
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("read"))
    kafka.produce(clusters.source_servers, topic, [b"a"] * 5, 0)
    with Proxy(clusters.source_servers) as proxy:
        pipeline = make_pipeline(
            tmp_path,
            proxy.servers,
            clusters.target_servers,
            [topic],
            features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
            transport={"form": form},
        )
        assert copy(pipeline).topics[topic].records == 5
        assert proxy.seen(Api.FETCH)
        assert bool(proxy.seen(Api.FIND_COORDINATOR)) == asks
