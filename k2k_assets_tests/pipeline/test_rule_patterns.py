"""Rules whose pattern matches no selected topic are told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.core.stops.reasons.schemas import SchemaNotOnSource, SchemaOfOtherTopic
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.rule_patterns import rules_for_nothing, topics_without_schemas
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.registry.of_pipeline import facets_with_schemas
from k2k_assets_tests.support.copies.pipelines import make_pipeline

TOPICS = {"orders": 1, "payments.eu": 2}
MASK = {"mask": [{"value": "card", "hash": "sha256"}]}


def with_registries(tmp_path: Path, **sections: Any) -> Pipeline:
    registry = {"registry": {"config": {"schema.registry.url": "http://r:1"}}}
    sides = {
        role: {"kafka": {"common": {"bootstrap.servers": f"{role}:1"}, **more}, **registry}
        for role, more in (("source", {"consumer": {"group.id": "g"}}), ("target", {}))
    }
    return make_pipeline(tmp_path, "", "", ".*", **sides, **sections)


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
    said = rules_for_nothing(with_registries(tmp_path, **sections), TOPICS)
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


@pytest.mark.parametrize(
    ("patterns", "left"), [([], ""), ([".*"], ""), (["x"], "orders, payments.eu"), (["orders"], "payments.eu")]
)
def test_topics_whose_schema_ids_no_rule_maps_are_named(tmp_path: Path, patterns: list[str], left: str) -> None:
    rules = [{"pattern": pattern, "value": "enabled"} for pattern in patterns]
    sections = {"schemaMapping": {"topics": rules}, "features": {"schemaMapping": "enabled"}}
    said = f"no rule of schemaMapping.topics is for {left}: schema ids stay those of the source" if left else ""
    assert topics_without_schemas(with_registries(tmp_path, **sections), TOPICS) == said


@pytest.mark.parametrize("facet", ["key", "value"])
@pytest.mark.parametrize("topic", ["orders", "orders.v1", "0123"])
@pytest.mark.parametrize(("kind", "said"), [(SchemaNotOnSource, None), (SchemaOfOtherTopic, True)])
def test_the_rules_that_a_stop_advises_change_nothing_else(
    tmp_path: Path,
    kind: type[SchemaNotOnSource] | type[SchemaOfOtherTopic],
    said: bool | None,
    topic: str,
    facet: Facet,
) -> None:
    """With rules that say more, ids of other topics stay those of the source, or numbers are taken for ids."""
    reason = replace(kind.example(), source=TopicPartition(topic, 0), facet=facet)
    rules = [yaml.safe_load(found) for found in re.findall(r"\{pattern.*?\}", reason.to_do())]
    assert len(rules) == 2
    sections = {"schemaMapping": {"topics": rules}, "features": {"schemaMapping": "enabled"}}
    found = facets_with_schemas(with_registries(tmp_path, **sections))
    guessed: dict[Facet, bool] = {"key": False, "value": False}
    for other in ("payments.eu", "orders-v1"):
        assert found(other) == guessed
    del guessed[facet]
    assert found(topic) == guessed | ({facet: True} if said else {})


def test_a_rule_for_all_topics_is_a_rule(tmp_path: Path) -> None:
    """What a rule says is certain; without one, a payload that only seems to have a schema id stops its topic."""
    rule = {"pattern": ".*", "key": "enabled", "value": "enabled"}
    features = {"schemaMapping": "enabled"}
    with_rule = with_registries(tmp_path, schemaMapping={"topics": [rule]}, features=features)
    assert facets_with_schemas(with_rule)("orders") == {"key": True, "value": True}
    without = with_registries(tmp_path, features=features)
    assert facets_with_schemas(without)("orders") == {"key": False, "value": False}
