"""Settings of clients: each goes by its own section, and what the brokers must allow is checked before the copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("permitted", [True, False], ids=["asked", "not permitted to ask"])
@MODES
def test_a_transaction_time_out_that_the_target_does_not_take(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, permitted: bool
) -> None:
    """The default of Kafka's transaction.max.timeout.ms is 15 minutes."""
    topic = create_topic(clusters.source_servers, unique("slow"))
    produce(clusters.source_servers, topic, [b"a"])
    pipeline = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic],
        features={"exactlyOnce": mode}, producer={"transaction.timeout.ms": 900_001},
        coordination={
            "commit": {"topic": f"{topic}-commits", "syncTimeout": "30 minutes"},
            "assignment": {"topic": f"{topic}-claims"},
        },
    )  # fmt: skip

    def forbidden(_: Cluster, name: str) -> None:
        raise Refused(f"not allowed to see {name}")

    if not permitted:
        monkeypatch.setattr(Cluster, "broker_config", forbidden)
    with pytest.raises(Refused, match=r"producer.'transaction.timeout.ms'.* is longer than the target .* allows") as no:
        copy(pipeline)
    assert "transaction.max.timeout.ms" in str(no.value)
    assert ("is 900001, which" in str(no.value)) == permitted
    assert ("at most 900000 (its" in str(no.value)) == permitted
    assert not permitted or topic not in topics(clusters.target_servers), "before anything was created"


@MODES
def test_each_client_goes_by_its_own_section(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    """`common` leads nowhere here: what copies and keeps the books has its address from the sections of the clients."""
    topic, group = create_topic(clusters.source_servers, unique("sections")), unique("k2k")
    produce(clusters.source_servers, topic, [b"%d" % n for n in range(20)])
    nowhere = {"bootstrap.servers": "127.0.0.1:1"}
    source, target = ({"bootstrap.servers": of} for of in (clusters.source_servers, clusters.target_servers))
    pipeline = make_pipeline(
        tmp_path, "", "", [topic],
        features={"exactlyOnce": mode, "offsetMapping": "enabled"},
        source={"kafka": {"common": nowhere, "consumer": {**source, "group.id": group}, "admin": source}},
        target={"kafka": {"common": nowhere, "consumer": target, "producer": target, "admin": target}},
    )  # fmt: skip
    assert copy(pipeline).stopped == {}
    produce(clusters.source_servers, topic, [b"more"])
    assert copy(pipeline).topics[topic].records == 1, "the reader of control topics found the position"
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [
        r.value for r in read_all(clusters.source_servers, topic)
    ]
