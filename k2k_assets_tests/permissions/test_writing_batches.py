"""Whole batches are copied over TLS, with a password and with certificates, by somebody with the listed rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.factory import BATCHES, TRANSPORTS
from k2k_assets_tests.permissions.permissions_fixture import PermissionsFixture, Way
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.secure import mtls, pem_texts, scram, secure_pipeline
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, copy, copying_by

pytestmark = pytest.mark.integration

FEATURES = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}


@pytest.fixture(scope="module")
def topic(secure_clusters: KafkaSandbox) -> str:
    """Two partitions with 300 records each."""
    servers = secure_clusters.source.mtls_servers
    name = kafka.create_topic(servers, kafka.unique("secured"), 2)
    for partition in range(2):
        kafka.produce(servers, name, [b"%d" % n for n in range(300)], partition)
    return name


def _assert_copied(clusters: KafkaSandbox, pipeline: Pipeline, topic: str) -> None:
    with copying_by(BATCHES):
        for _ in range(2):  # the second run takes over from the first, and fences its slots
            assert not copy(pipeline).stopped
    source, target = clusters.source.mtls_servers, clusters.target.mtls_servers
    assert assert_same_content(source, topic, target, pipeline.routing.target_topic(topic)) == 600
    assert_exact_mappings(pipeline, source, target, topic)


@pytest.mark.parametrize("way", [scram, mtls, pem_texts], ids=["password", "certificate", "texts"])
def test_they_are_copied_with_the_listed_rights(
    secure_clusters: KafkaSandbox, tmp_path: Path, topic: str, way: Way
) -> None:
    fixture = PermissionsFixture(secure_clusters, tmp_path, (scram, way))
    path = fixture.pipeline_file([topic], transform=[])
    fixture.grant(fixture.acls(path, "replication"))
    _assert_copied(secure_clusters, load_pipeline([path]), topic)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sasl.password": "wrong-4711"}, "^the target cluster at .* refuses the login: .*: SASL authentication error"),
        (
            {"ssl.ca.location": "probe"},
            "^the target cluster at .* cannot be talked to over TLS: .*: SSL routines: .*CERTIFICATE_VERIFY_FAILED",
        ),
    ],
    ids=["password", "authority"],
)
def test_who_is_not_let_in_is_told_why(
    secure_clusters: KafkaSandbox, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    source, target = secure_clusters.source, secure_clusters.target
    way = {**scram(target), **change}
    pipeline = secure_pipeline(tmp_path, scram(source), way, ["any"], features=FEATURES)
    sink = TRANSPORTS[BATCHES](pipeline).open_sinks(True, 1_000_000).open_sink(kafka.unique("slot"))
    with pytest.raises(ClusterUnreachable, match=words) as refused:
        sink.open()
    sink.close()
    assert "wrong-4711" not in str(refused.value)
