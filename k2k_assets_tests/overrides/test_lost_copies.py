"""A target that lost copies in an unclean election, and is taken up again by hand: what is lost is never exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2k_assets.cli.tool import run
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation.translator import translate_offsets
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.brokers.lossy_source import LossySource, lossy_broker
from k2k_assets_tests.support.copies.copying import copy, told
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossySource]:
    with lossy_broker(tmp_path_factory.mktemp("target")) as broker:
        yield LossySource(broker)


@MODES
@pytest.mark.parametrize(("where", "is_noticed"), [("current", True), ("8", True), ("current", False)])
def test_copies_that_are_lost_are_skipped_and_their_places_are_others(
    clusters: KafkaSandbox, tmp_path: Path, target: LossySource, mode: str, where: str, is_noticed: bool
) -> None:
    """
    ```
     source   0 1 2 3 | 4 ... 9 | 10 ...          4 to 9 were copied, and lost
     target   0 1 2 3           | 10' ...         what comes after lies in the places of those
    ```
    """
    source = clusters.source_servers
    topic = create_topic(source, unique("from"))
    path = write_pipeline(
        tmp_path,
        source,
        target.servers,
        [topic],
        features={"exactlyOnce": mode, "offsetMapping": "enabled"},
        consumer={"group.id": unique("group")},
    )
    pipeline = load_pipeline([path])
    produce(source, topic, [b"%d" % n for n in range(4)])
    assert copy(pipeline).stopped == {}
    target.mark(topic)
    produce(source, topic, [b"%d" % n for n in range(4, 10)])
    assert copy(pipeline).stopped == {}

    target.lose()
    produce(source, topic, [b"%d" % n for n in range(10, 30)])
    if is_noticed:
        stopped = told(copy(pipeline))[topic]
        assert "it was truncated, and copies in it are lost" in stopped
        assert told(copy(pipeline))[topic] == stopped, "what the first attempt left behind hides nothing"
    assert run(["set", "-f", str(path), "-o", f"{topic}:0:{where}", "--accept-foreign-records"]) == 0
    assert copy(pipeline).stopped == {}

    again = 10 if where == "current" else int(where)
    there = {int(record.value): record.offset for record in read_all(target.servers, topic) if record.value}
    assert sorted(there) == [*range(4), *range(again, 30)]
    asked = [2, 4, 6, 9, 10, 20]
    answers = translate_offsets(pipeline, topic, 0, asked)
    wanted = [there[min(number for number in there if number >= position)] for position in asked]
    assert [answer.to_offset for answer in answers] == wanted
    assert {answer.state for answer in answers} == {"exact"}
    back = translate_offsets(pipeline, topic, 0, [there[3], there[again], there[20]], reverse=True)
    assert [answer.to_offset for answer in back] == [3, again, 20]


def test_a_group_that_left_before_the_loss_does_not_go_back_behind_what_it_has_read_nowhere(
    clusters: KafkaSandbox, tmp_path: Path, target: LossySource
) -> None:
    """It has read 10 to 19 on the target, where 4 to 9 were lost; the source still has these."""
    source, prefix = clusters.source_servers, unique("readers")
    topic = create_topic(source, unique("from"))
    path = write_pipeline(
        tmp_path, source, target.servers, [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"consumerGroups": f"{prefix}.*"},
        consumer={"group.id": unique("group")},
    )  # fmt: skip
    pipeline, at = load_pipeline([path]), TopicPartition(topic, 0)
    produce(source, topic, [b"%d" % n for n in range(4)])
    assert copy(pipeline).stopped == {}
    target.mark(topic)
    produce(source, topic, [b"%d" % n for n in range(4, 10)])
    assert copy(pipeline).stopped == {}
    target.lose()
    produce(source, topic, [b"%d" % n for n in range(10, 30)])
    assert "copies in it are lost" in told(copy(pipeline))[topic]
    assert run(["set", "-f", str(path), "-o", f"{topic}:0:current", "--accept-foreign-records"]) == 0
    assert copy(pipeline).stopped == {}

    there = {int(record.value): record.offset for record in read_all(target.servers, topic) if record.value}
    left = {f"{prefix}-{position}": position for position in (2, 7, 10)}
    for group, position in left.items():
        commit(source, group, {at: position})
        commit(target.servers, group, {at: there[20]}, "of an application")
    with both_clusters(pipeline) as (here, other):
        plans = {left[plan.group]: plan.rows[0] for plan in failback_plans(pipeline, here, other)}
    assert {position: (row.decision.value, row.offset) for position, row in plans.items()} == {
        2: ("unknown", -1), 7: ("unknown", -1), 10: ("exact", 20),
    }  # fmt: skip
