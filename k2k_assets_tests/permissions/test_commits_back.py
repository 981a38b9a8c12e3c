"""Whoever may not read the commit topic of the pipeline back copies all the same, and is told what is not known."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from k2k_assets.core.stops.reasons.unmarked_copies import UnmarkedCopies
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.principals import binding
from k2k_assets_tests.permissions.permissions_fixture import FEATURES, PermissionsFixture
from k2k_assets_tests.support.brokers import kafka, secure
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
    acls["source"] = {acl for acl in acls["source"] if acl.name != commits}
    if sees_it:
        acls["source"].add(binding(fixture.user, ResourceType.TOPIC, commits, AclOperation.DESCRIBE))
    fixture.grant(acls)
    with caplog.at_level(logging.WARNING, "k2k.replication"):
        assert copy(load_pipeline([path])).stopped == {}
    (said,) = [line for line in caplog.messages if "without the marker is not known" in line]
    assert f"its commit topic '{commits}' on the source" in said
    assert "may not be read; `k2k acls -f FILE` prints" in said


def test_with_what_k2k_acls_prints_copies_without_the_marker_do_not_come_back(
    secure_clusters: KafkaSandbox, tmp_path: Path
) -> None:
    fixture = PermissionsFixture(secure_clusters, tmp_path)
    topic = kafka.create_topic(fixture.servers("source"), kafka.unique("guarded"))
    kafka.create_topic(fixture.servers("target"), topic)
    kafka.produce(fixture.servers("source"), topic, [b"a"] * 3)
    both: dict[str, Any] = {"name": kafka.unique("both"), "transform": [], "sink": "source"}
    forth = fixture.pipeline_file([topic], **both)
    fixture.grant(fixture.acls(forth, "replication"))
    assert copy(load_pipeline([forth])).stopped == {}

    there, here = (secure.scram(fixture.brokers[role], fixture.user) for role in ("target", "source"))
    features = {**FEATURES, "bidirectionalReplication": "enabled"}
    # Its control topics have the names of those of the first direction, on the other cluster.
    control = load_pipeline([forth]).coordination
    names = {kind: {"topic": getattr(control, kind).topic} for kind in ("commit", "assignment")}
    rest = {**both, "features": features, "coordination": names}
    back = secure.write_secure_pipeline(tmp_path, there, here, [topic], **rest)
    fixture.grant(fixture.acls(back, "replication"))
    ((reason,),) = (stops.values() for stops in copy(load_pipeline([back])).stopped.values())
    assert isinstance(reason, UnmarkedCopies)
