"""Two pipelines copy into one target topic, each with rights of its own: neither may see the other's source topic.

The broker leaves what may not be seen out of a group's positions, in silence: so the group seems to read one topic.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.mapper import sync_once
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.permissions.permissions_fixture import PermissionsFixture
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.copies.copying import copy

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_beside_a_topic_that_may_not_be_seen_no_group_is_moved(secure_clusters: KafkaSandbox, tmp_path: Path) -> None:
    stage = PermissionsFixture(secure_clusters, tmp_path)
    source, target = stage.servers("source"), stage.servers("target")
    into, reads_both, reads_one = kafka.unique("all"), kafka.unique("both"), kafka.unique("one")
    coordination = {"commit": {"topic": kafka.unique("commits")}, "assignment": {"topic": kafka.unique("claims")}}
    own, theirs = (kafka.create_topic(source, kafka.unique(name)) for name in ("orders", "payments"))
    path, other = (
        stage.pipeline_file(
            [topic], name=kafka.unique("two"), coordination=coordination, transform=[], sink={"static": into},
            groups={"consumerGroups": [reads_both, reads_one]},
        )
        for topic in (own, theirs)
    )  # fmt: skip
    for topic, each in ((own, path), (theirs, other)):
        kafka.produce(source, topic, [b"%d" % n for n in range(9)], 0)
        stage.grant(stage.acls(each, "replication"))
        assert not copy(load_pipeline([each])).stopped
    commit(source, reads_both, {TopicPartition(own, 0): 9, TopicPartition(theirs, 0): 3})
    commit(source, reads_one, {TopicPartition(own, 0): 4})
    pipeline, at = load_pipeline([path]), TopicPartition(into, 0)

    acls = stage.acls(path, "mapper")
    stage.grant(acls)
    found = sync_once(pipeline)
    for group in (reads_both, reads_one):
        assert [line.decision.value for line in found.lines(group)] == ["unknown"]
        assert held(target, group) == {}
    assert f"allow this client to Describe {theirs}" in found.unproven[at]

    describe = AclBinding(
        ResourceType.TOPIC, theirs, ResourcePatternType.LITERAL, f"User:{stage.user}", "*", AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    stage.grant({**acls, "source": acls["source"] | {describe}})
    found = sync_once(pipeline)
    decisions = {group: [line.decision.value for line in found.lines(group)] for group in (reads_both, reads_one)}
    assert decisions == {reads_both: ["unknown"], reads_one: ["exact"]}
    assert held(target, reads_both) == {}
    assert held(target, reads_one)[at][0] == 4
