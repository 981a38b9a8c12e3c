"""Groups of a source that lost records in an unclean election, and grew again: other records have their offsets now.

```
 source, copied     0 ... 39  40 ... 99       40 to 99 were lost in the election
 source, today      0 ... 39  40 ... 139      40 to 139 are other records
```

A group that stands above 40 has read other records than those that were copied: its position has no translation. One
that has read copies of lost records on the target has read nothing that lies behind 40 today: it goes back to 40.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.live.live import LiveMappings
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker import Broker
from k2k_assets.translation.source_logs import SourceLogs
from k2k_assets.translation.translator import translate_offsets
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, unique
from k2k_assets_tests.support.brokers.kafka_tools import tool
from k2k_assets_tests.support.brokers.lossy_source import LossySource, lossy_broker
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.tool import run_tool

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of this file's own."""
    with lossy_broker(tmp_path_factory.mktemp("source")) as own:
        yield own


def exact_pipeline(directory: Path, source: LossySource, target: str, topic: str, prefix: str) -> Path:
    """The file of a pipeline with a position of its own, and with the groups whose names begin so."""
    return write_pipeline(
        directory,
        source.servers,
        target,
        [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"consumerGroups": f"{prefix}.*"},
        consumer={"group.id": unique("k2k")},
    )


@pytest.mark.slow
@pytest.mark.parametrize("copied", [True, False], ids=["copied to the end", "copied before the loss only"])
def test_positions_above_the_cut_mean_nothing_any_more(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker, copied: bool
) -> None:
    source, target = LossySource(broker), clusters.target_servers
    topic, prefix = create_topic(source.servers, unique("orders")), unique("readers")
    at = TopicPartition(topic, 0)
    path = exact_pipeline(tmp_path, source, target, topic, prefix)
    pipeline = load_pipeline([path])
    source.write(topic, "kept", 40)
    source.mark(topic)
    if not copied:
        copy(pipeline)
    source.write(topic, "lost", 60)
    if copied:
        copy(pipeline)
    source.lose()
    source.write(topic, "new", 100)

    forth = {position: f"{prefix}-forth-{position}" for position in (20, 40, 60, 100)}
    for position, group in forth.items():
        commit(source.servers, group, {at: position})
    result = sync_once(pipeline)
    said = {position: result.lines(group)[0].decision.value for position, group in forth.items()}
    stands = {position: held(target, group).get(at, (None, ""))[0] for position, group in forth.items()}
    if copied:
        assert said == {20: "exact", 40: "exact", 60: "unknown", 100: "unknown"}
        assert stands == {20: 20, 40: 40, 60: None, 100: None}
    else:
        assert said == {20: "exact", 40: "exact", 60: "ahead", 100: "ahead"}

    back = {position: f"{prefix}-back-{position}" for position in (20, 40, 60, 100)}
    for position, group in back.items():
        if position <= 40 or copied:
            commit(target, group, {at: position}, "of an application")
    with both_clusters(pipeline) as (here, there):
        plans = {plan.group: plan.rows[0] for plan in failback_plans(pipeline, here, there)}
    planned = {p: (plans[g].decision.value, plans[g].offset) for p, g in back.items() if g in plans}
    # A group that has read lost copies has read nothing of what lies behind the cut-off on the source today.
    behind = {60: ("exact", 40), 100: ("exact", 40)} if copied else {}
    assert planned == {20: ("exact", 20), 40: ("exact", 40), **behind}

    # Single positions are answered likewise.
    there_and_back = {
        reverse: [(row.state, row.to_offset) for row in translate_offsets(pipeline, topic, 0, forth, reverse=reverse)]
        for reverse in (False, True)
    }
    if copied:
        assert there_and_back[False] == [("exact", 20), ("exact", 40), ("unknown", None), ("unknown", None)]
        assert there_and_back[True] == [("exact", 20), ("exact", 40), ("exact", 40), ("exact", 40)]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [40, 0], ids=["some is left", "nothing is left"])
def test_a_position_that_goes_on_behind_the_cut_skips_what_lies_there_today(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker, capsys: pytest.CaptureFixture[str], kept: int
) -> None:
    """One of the two ways that the stop names; else the copies of lost records answer as exact from then on."""
    source = LossySource(broker)
    topic = create_topic(source.servers, unique("orders"))
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    path = write_pipeline(tmp_path, source.servers, clusters.target_servers, [topic], features=features)
    pipeline = load_pipeline([path])
    if kept:
        source.write(topic, "kept", kept)
    source.mark(topic)
    source.write(topic, "lost", 100 - kept)
    copy(pipeline)
    source.lose()
    source.write(topic, "new", 140 - kept)
    with both_clusters(pipeline) as (here, there), LiveMappings(pipeline, here.cluster_id(), there) as mappings:
        mappings.catch_up(())
        copied = {TopicPartition(s.topic, s.partition): record for s, record in mappings.copied().items()}
        assert SourceLogs(pipeline, here).ends(copied, copied).offsets == {TopicPartition(topic, 0): kept}
    assert run_tool(capsys, path, "set", "-o", f"{topic}:0:100")[0] == 0
    assert copy(pipeline).stopped == {}
    first_behind = translate_offsets(pipeline, topic, 0, [100])[0].to_offset
    assert first_behind is not None
    assert first_behind > 100
    rows = translate_offsets(pipeline, topic, 0, [20, 40, 60, 99])
    below = 20 if kept else first_behind
    assert [row.to_offset for row in rows] == [below, *[first_behind] * 3], "new records are nowhere on the target"


@pytest.mark.slow
def test_what_was_read_of_the_former_log_stays_unknown_when_the_copy_has_gone_on(
    clusters: KafkaSandbox, tmp_path: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other way that the stop names copies the new records: nobody who stood above the cut-off has read them."""
    source, target = LossySource(broker), clusters.target_servers
    topic, prefix = create_topic(source.servers, unique("orders")), unique("readers")
    at = TopicPartition(topic, 0)
    path = exact_pipeline(tmp_path, source, target, topic, prefix)
    pipeline = load_pipeline([path])
    source.write(topic, "kept", 40)
    source.mark(topic)
    source.write(topic, "lost", 60)
    copy(pipeline)
    source.lose()
    source.write(topic, "new", 100)
    epoch = source.epoch(topic)
    readers = {(20, 0): "exact", (40, 0): "exact", (60, 0): "unknown", (100, 0): "unknown", (60, epoch): "exact"}
    groups = {read: f"{prefix}-{read[0]}-{read[1]}" for read in readers}
    for (position, under), group in groups.items():
        commit(source.servers, group, {at: position}, epoch=under)
    assert list(copy(pipeline).stopped) == [topic]
    assert run_tool(capsys, path, "set", "-o", f"{topic}:0:40")[0] == 0
    assert copy(pipeline).stopped == {}
    for _ in range(2):
        result = sync_once(pipeline)
        assert {read: result.lines(group)[0].decision.value for read, group in groups.items()} == readers
    new = translate_offsets(pipeline, topic, 0, [60])[0].to_offset
    stands = {read: held(target, group).get(at, (None, ""))[0] for read, group in groups.items()}
    assert stands == {(20, 0): 20, (40, 0): stands[40, 0], (60, 0): None, (100, 0): None, (60, epoch): new}

    advised = ("--reset-offsets", "--to-current", "--execute")
    assert " ".join(advised) in result.unproven[at]
    assert f"--topic {topic}:0" in result.unproven[at]
    of_group = ("--bootstrap-server", source.servers, "--group", groups[60, 0], "--topic", f"{topic}:0")
    done = subprocess.run([*tool("consumer.group.ConsumerGroupCommand"), *of_group, *advised], timeout=10 * SECONDS)
    assert done.returncode == 0
    assert sync_once(pipeline).lines(groups[60, 0])[0].decision.value == "exact"

    commit(target, groups[100, 0], {at: 20}, "of an application")  # it has gone on there on its own
    with both_clusters(pipeline) as (here, there):
        (back,) = (plan.rows[0] for plan in failback_plans(pipeline, here, there) if plan.group == groups[100, 0])
    assert (back.decision.value, back.offset) == ("exact", 20)
