"""What a target topic has to be like, without clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.topics.create import WantedTopic
from k2k_assets.topics.wanted import MIN_ISR, TargetTopic, TopicSettings, wanted_topic
from k2k_assets_tests.support.copies.pipelines import make_pipeline


def of(
    directory: Path,
    has: Mapping[str, str] | None = None,
    brokers: int = 3,
    excluded: Sequence[str] = (),
    **common: Any,
) -> TargetTopic:
    """The copy of a topic with six partitions, three replicas and some configs; `common` is what the file says."""
    kafka = {"common": {"bootstrap.servers": "t:1"}, "topicPropsExclusionList": list(excluded)}
    creation = {"replication": {"common": common}}
    pipeline = make_pipeline(directory, "s:1", "t:1", ["orders"], topicCreation=creation, target={"kafka": kafka})
    return wanted_topic(pipeline, "copy.orders", "orders", TopicSettings(6, 3, has or {}, has or {}), brokers)


def test_it_is_like_its_source(tmp_path: Path) -> None:
    config = {"cleanup.policy": "compact", MIN_ISR: "2"}
    assert of(tmp_path, config) == TargetTopic(WantedTopic("copy.orders", 6, 3, config))


def test_what_the_file_says_comes_first(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        {"retention.ms": "1", "cleanup.policy": "compact"},
        partitions=2,
        config={"retention.ms": 5},
    )
    assert found.topic == WantedTopic("copy.orders", 2, 3, {"retention.ms": "5", "cleanup.policy": "compact"})
    assert found.explicit == {"partitions", "retention.ms"}


def test_excluded_configs_are_not_taken_over_but_the_files_own_are(tmp_path: Path) -> None:
    config = {"retention.ms": "1", "segment.ms": "2", "leader.replication.throttled.replicas": "0:1"}
    assert of(tmp_path, config, excluded=["segment.ms"]).topic.config == {"retention.ms": "1"}
    found = of(tmp_path, config, excluded=["segment.ms", "retention.ms"], config={"segment.ms": "9"})
    assert found.topic.config == {"segment.ms": "9"}


@pytest.mark.parametrize(
    ("brokers", "asked", "replication", "min_isr", "left_out"),
    [
        (3, None, 3, "2", []),
        (2, None, 2, "2", ["replication factor"]),
        (1, None, 1, None, [MIN_ISR, "replication factor"]),
        (5, 5, 5, "2", []),
        (3, 1, 1, None, [MIN_ISR]),
        (1, 4, 4, "2", []),  # the broker says that it cannot
    ],
)
def test_as_many_replicas_as_on_the_source_if_there_are_brokers_and_never_too_few_to_write(
    tmp_path: Path, brokers: int, asked: int | None, replication: int, min_isr: str | None, left_out: list[str]
) -> None:
    found = of(tmp_path, {MIN_ISR: "2"}, brokers, replication=asked)
    assert (found.topic.replication, found.topic.config.get(MIN_ISR)) == (replication, min_isr)
    assert sorted(found.left_out) == sorted(left_out)


def test_min_isr_that_the_file_asks_for_is_kept(tmp_path: Path) -> None:
    found = of(tmp_path, brokers=1, config={MIN_ISR: "2"})
    assert found.topic.config == {MIN_ISR: "2"}
