"""`topicCreation.replication`: which settings the copy of a topic gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.pipeline.sections.topic_creation import ReplicatedTopicSettings
from k2k_assets_tests.pipeline.files import changed, load_text, refusal

COMMON = {"partitions": 3, "config": {"retention.ms": 1000, "cleanup.policy": "delete"}}
RULES = [
    {"pattern": "orders\\..*", "properties": {"replication": 2, "config": {"retention.ms": "5"}}},
    {"pattern": "orders\\.eu|plain", "properties": {"partitions": 7}},
    {"pattern": ".*none", "properties": {"partitions": None}},
]


@pytest.mark.parametrize(
    ("topic", "wanted"),
    [
        ("orders.eu", (3, 2, {"retention.ms": "5", "cleanup.policy": "delete"})),
        ("plain", (7, None, {"retention.ms": "1000", "cleanup.policy": "delete"})),
        ("plain2", (3, None, {"retention.ms": "1000", "cleanup.policy": "delete"})),
        ("of none", (3, None, {"retention.ms": "1000", "cleanup.policy": "delete"})),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_is_laid_over_common(
    tmp_path: Path, topic: str, wanted: tuple[int, int | None, dict[str, str]]
) -> None:
    section = {"topicCreation/replication": {"common": COMMON, "rules": RULES}}
    found = load_text(tmp_path, changed(section)).topic_creation.replicated_topic(topic)
    assert (found.partitions, found.replication, found.config) == wanted


def test_without_the_section_everything_is_left_open(tmp_path: Path) -> None:
    assert load_text(tmp_path, changed({})).topic_creation.replicated_topic("orders") == ReplicatedTopicSettings()


def test_a_rule_needs_properties(tmp_path: Path) -> None:
    said = refusal(tmp_path, changed({"topicCreation/replication": {"rules": [{"pattern": "a"}]}}))
    assert "topicCreation.replication.rules[0].properties: expected this key" in said
