"""Both sides are written, and one of them lost records in an unclean election: groups of the other side go there.

```
 b, copied to a    0 ... 39  40 ... 59      40 to 59 were lost in the election
 b, today          0 ... 39  40 ... 69      40 to 69 are other records
```

A group that has read the copies of 40 to 59 on a has not read what has these offsets on b today.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker import Broker
from k2k_assets.translation.translator import translate_offsets
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.brokers.lossy_source import LossySource, lossy_broker
from k2k_assets_tests.support.copies.both_ways import both_ways, of_groups, settle, topic_on_both
from k2k_assets_tests.support.copies.copying import copy, told
from k2k_assets_tests.support.copies.tool import run_tool

pytestmark = [pytest.mark.integration, pytest.mark.slow]


class _Pair(NamedTuple):
    source_servers: str
    target_servers: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of this file's own."""
    with lossy_broker(tmp_path_factory.mktemp("lossy")) as own:
        yield own


def test_groups_of_the_other_side_stay_out_of_what_took_the_place_of_lost_records(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    b = LossySource(broker)
    pair = _Pair(clusters.source_servers, b.servers)
    topic, prefix = topic_on_both(pair), unique("readers")
    at = TopicPartition(topic, 0)
    forth, back = ways = both_ways(pair, tmp_path, [topic])
    b.write(topic, "kept", 40)
    b.mark(topic)
    b.write(topic, "lost", 20)
    settle(ways)
    b.lose()
    b.write(topic, "new", 30)

    pipeline = of_groups(forth, prefix)
    groups = {position: f"{prefix}-{position}" for position in (30, 40, 60)}
    for position, group in groups.items():
        commit(forth.source, group, {at: position})
    for is_noticed in (False, True):
        if is_noticed:
            assert "was truncated at 40" in told(copy(back.pipeline))[topic]
            assert copy(forth.pipeline).stopped == {}
        result = sync_once(pipeline)
        stands = {position: held(b.servers, group).get(at, (None, ""))[0] for position, group in groups.items()}
        assert stands == {30: 30, 40: None, 60: None}
        assert {result.lines(groups[position])[0].decision.value for position in (40, 60)} == {"unknown"}
        assert "was truncated" in result.unproven[at]
        assert [row.to_offset for row in translate_offsets(pipeline, topic, 0, groups)] == [30, None, None]

    there = {position: f"{prefix}-there-{position}" for position in (30, 55, 65)}
    for position, group in there.items():
        commit(b.servers, group, {at: position})
    with both_clusters(pipeline) as clients:
        plans = {plan.group: plan.rows for plan in failback_plans(pipeline, *clients, back.pipeline)}
    decided = {position: [row.decision.value for row in plans[group]] for position, group in there.items()}
    assert decided == {30: ["exact"], 55: ["unknown"], 65: ["unknown"]}, "whoever was below has not read what was lost"

    assert run_tool(capsys, back.path, "set", "-o", f"{topic}:0:40")[0] == 0
    settle(ways)
    sync_once(pipeline)
    stands = {position: held(b.servers, group)[at][0] for position, group in groups.items()}
    assert stands == {30: 30, 40: 40, 60: 40}
