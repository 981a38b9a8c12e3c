"""Rules whose pattern matches no selected topic are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.pipeline.rule_patterns import rules_for_nothing
from k2k_assets_tests.support.copies.pipelines import make_pipeline

TOPICS = {"orders": 1, "payments.eu": 2}
MASK = {"mask": [{"value": "card", "hash": "sha256"}]}


@pytest.mark.parametrize(
    ("sections", "places"),
    [
        ({"transform": [{"pattern": ".*", **MASK}, {"pattern": "order", **MASK}]}, ["transform[1].pattern 'order'"]),
        (
            {"throttle": {"topics": [{"pattern": "payments", "bytesPerSecond": 1000}]}},
            ["throttle.topics[0].pattern 'payments'"],
        ),
        (
            {
                "features": {"schemaMapping": "enabled"},
                "schemaMapping": {"topics": [{"pattern": "orders", "key": "enabled"}, {"pattern": "x"}]},
            },
            ["schemaMapping.topics[1].pattern 'x'"],
        ),
        ({"schemaMapping": {"topics": [{"pattern": "x"}]}}, []),
        (
            {"topicCreation": {"replication": {"rules": [{"pattern": "x.*", "properties": {}}]}}},
            ["topicCreation.replication.rules[0].pattern 'x.*'"],
        ),
        ({"transform": [{"pattern": r"payments\..*|x", **MASK}]}, []),
        ({}, []),
    ],
    ids=str,
)
def test_rules_that_are_for_no_topic(tmp_path: Path, sections: dict[str, Any], places: list[str]) -> None:
    registry = {"registry": {"config": {"schema.registry.url": "http://r:1"}}}
    sides = {
        role: {"kafka": {"common": {"bootstrap.servers": f"{role}:1"}, **more}, **registry}
        for role, more in (("source", {"consumer": {"group.id": "g"}}), ("target", {}))
    }
    pipeline = make_pipeline(tmp_path, "", "", ".*", **sides, **sections)
    said = rules_for_nothing(pipeline, TOPICS)
    assert all(place in said for place in places)
    assert said.count(".pattern") == len(places)


def test_what_was_meant_is_said_of_the_first_ones(tmp_path: Path) -> None:
    rules = [{"pattern": pattern, **MASK} for pattern in ("ordrs", *"bcdefg")]
    said = rules_for_nothing(make_pipeline(tmp_path, "a:1", "b:1", ".*", transform=rules), TOPICS)
    assert said.startswith(
        "none of the selected topics (2) matches transform[0].pattern 'ordrs' (did you mean 'orders'?), "
        "transform[1].pattern 'b', "
    )
    assert "transform[4].pattern 'e' and 2 more: these rules apply to nothing. A pattern must match the whole" in said
