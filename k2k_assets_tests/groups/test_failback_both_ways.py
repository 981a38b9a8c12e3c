"""Groups that go from one side to the other and back, while both sides are written and copied both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, read_all, unique
from k2k_assets_tests.support.copies.both_ways import both_ways, of_groups, settle, write_some
from k2k_assets_tests.support.copies.copying import copy

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.parametrize("mode", ["enabled", "disabled"], ids=["exactly once", "at least once"])
@pytest.mark.parametrize("marker", ["pipeline", "cluster"])
def test_in_both_directions_each_group_goes_on_at_the_first_record_that_it_has_not_read(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, marker: str
) -> None:
    topic = unique("shared")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
    ways = both_ways(clusters, tmp_path, [topic], mode, marker)
    forth, back = ways
    for turn in range(3):
        write_some(forth, topic, f"a{turn}", 5)
        copy(forth.pipeline)
        write_some(back, topic, f"b{turn}", 5)
        write_some(forth, topic, f"c{turn}", 3)
        copy(back.pipeline)
    settle(ways)
    for way, other in ((forth, back), (back, forth)):
        here, there = read_all(way.source, topic), read_all(way.target, topic)
        prefix = unique("returning")
        standing = {f"{prefix}-{at}": at for at in range(1, there[-1].offset + 2)}
        for group, at in standing.items():
            commit(way.target, group, {TopicPartition(topic, 0): at})
        pipeline = of_groups(way, prefix)
        with both_clusters(pipeline) as (source, target):
            plans = failback_plans(pipeline, source, target, other.pipeline)
        found = {plan.group: plan.rows[0].offset for plan in plans}
        for group, at in standing.items():
            read = {record.value for record in there if record.offset < at}
            unread = [record.offset for record in here if record.value not in read]
            offset = found[group]
            skipped = [record.value for record in here if record.offset < offset and record.value not in read]
            assert skipped == [], (group, offset)
            # Markers may lie between; no record that was read comes before the first unread one again.
            again = [r.value for r in here if offset <= r.offset < min(unread, default=here[-1].offset + 1)]
            assert again == [], (group, offset)
