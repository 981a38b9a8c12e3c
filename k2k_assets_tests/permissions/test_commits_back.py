"""Who may not read the commit topic of the pipeline back copies all the same, and is told what is not known."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.principals import binding
from k2k_assets_tests.permissions.permissions_fixture import FEATURES, PermissionsFixture
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.copies.copying import copy

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("sees_it", [False, True], ids=["hidden", "seen"])
def test_it_may_not_be_read(
    secure_clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, sees_it: bool
) -> None:
    fixture = PermissionsFixture(secure_clusters, tmp_path)
    topic = kafka.create_topic(fixture.servers("source"), kafka.unique("guarded"))
    kafka.produce(fixture.servers("source"), topic, [b"a"] * 3)
    path = fixture.pipeline_file([topic], features={**FEATURES, "bidirectionalReplication": "enabled"})
    commits = kafka.create_topic(fixture.servers("source"), load_pipeline([path]).coordination.commit.topic)
    acls = fixture.acls(path, "replication")
    if sees_it:
        acls["source"].add(binding(fixture.user, ResourceType.TOPIC, commits, AclOperation.DESCRIBE))
    fixture.grant(acls)
    with caplog.at_level(logging.WARNING, "k2k.replication"):
        assert copy(load_pipeline([path])).stopped == {}
    (said,) = [line for line in caplog.messages if "without the marker is not known" in line]
    assert f"its commit topic '{commits}' on the source" in said
    assert "may not be read" in said
