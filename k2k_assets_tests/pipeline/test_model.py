"""The pipeline model: the code version, models' descriptions and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.parsing.schema import section_of
from k2k_assets.pipeline.sections.topic_creation import ControlTopicSettings
from k2k_assets_tests.pipeline.files import TUTORIAL, changed, load_text

REQUIRED = {
    "bytes_per_second",
    "name",
    "source",
    "target",
    "replication",
    "kafka",
    "topic",
    "partition",
    "pattern",
    "properties",
}


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        if inner := section_of(field.annotation):
            yield from models(inner)


def test_every_field_has_a_description_and_a_default() -> None:
    for model in set(models(Pipeline)):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            assert field.is_required() <= (name in REQUIRED), f"{model.__name__}.{name}"
            assert field.is_required() == ("(required)" in field.description), f"{model.__name__}.{name}"


def test_models_are_frozen(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, TUTORIAL)
    with pytest.raises(ValueError, match="frozen"):
        pipeline.name = "other"


def test_the_code_version_is_stable(tmp_path: Path) -> None:
    # Changing this hash makes Dagster call every user's assets outdated: do so only when records change.
    assert load_text(tmp_path, TUTORIAL).code_version == "727fa4130c3e477c"


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"source/kafka/common/bootstrap.servers": "other:1"}, False),
        ({"source/kafka/common/sasl.password": "x"}, False),
        ({"coordination/commit/batchSize": 5}, False),
        ({"license": None}, False),
        ({"replication/0/source/name": "x"}, False),
        ({"replication/1/sink/name": "x"}, False),
        ({"features/headerReplication": "enabled"}, True),
        ({"features/exactlyOnce": "enabled"}, True),
        ({"source/kafka/consumer/group.id": "x"}, True),
        ({"name": "x"}, True),
        ({"replication/0/source/topic": "a.*"}, True),
        ({"replication/1/sink/topic": {"prefix": "a"}}, True),
        ({"replication/1/sink/partition": "producer"}, True),
        ({"target/kafka/producer/partitioner": "consistent"}, True),
        ({"source/kafka/consumer/isolation.level": "read_uncommitted"}, True),
        ({"source/kafka/consumer/isolation.level": "read_committed"}, False),
    ],
)
def test_the_code_version_follows_what_is_written(tmp_path: Path, changes: dict[str, object], differs: bool) -> None:
    before = load_text(tmp_path, TUTORIAL).code_version
    assert (load_text(tmp_path, changed(changes)).code_version != before) is differs


RULE = {"pattern": "orders", "value": "enabled"}
BOTH_WAYS = {"features/bidirectionalReplication": "enabled"}


def mapped(*rules: dict[str, str]) -> dict[str, object]:
    """Schema ids are mapped, by rules if there are any."""
    url = {"schema.registry.url": "http://registry"}
    on = {"features/schemaMapping": "enabled", "source/registry/config": url, "target/registry/config": url}
    return {**on, "schemaMapping/topics": [*rules]}


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ({}, mapped(), True),
        (mapped(), mapped({"pattern": ".*", "key": "enabled", "value": "enabled"}), False),
        (mapped(), mapped(RULE), True),
        (mapped(RULE), mapped({**RULE, "key": "enabled"}), True),
        (mapped(RULE), mapped({**RULE, "pattern": "order"}), True),
        (mapped(RULE, {"pattern": ".*"}), mapped({"pattern": ".*"}, RULE), True),
        (mapped(RULE), mapped({**RULE, "unframed": "refused", "nulls": "refused"}), False),
        (mapped(), {**mapped(), "target/registry/headers": {"X-Team": "orders"}}, False),
        ({}, {"schemaMapping/topics": [RULE]}, False),
        ({}, BOTH_WAYS, True),
        (BOTH_WAYS, {**BOTH_WAYS, "bidirectional/mode": "cluster"}, True),
        (BOTH_WAYS, {**BOTH_WAYS, "bidirectional/mode": "pipeline"}, False),
        (BOTH_WAYS, {**BOTH_WAYS, "bidirectional/headers/bidirectional": "copied-by"}, True),
        ({}, {"bidirectional/mode": "cluster"}, False),
    ],
)
def test_the_code_version_follows_schema_rules_and_the_marker(
    tmp_path: Path, one: dict[str, object], other: dict[str, object], differs: bool
) -> None:
    versions = {load_text(tmp_path, changed(changes)).code_version for changes in (one, other)}
    assert len(versions) == (2 if differs else 1)


def test_control_topics_inherit_from_common(tmp_path: Path) -> None:
    control = {
        "common": {"partitions": 3, "replication": 2, "config": {"a": 1, "b": 1}},
        "commit": {"partitions": 1, "config": {"b": 2}},
    }
    creation = load_text(tmp_path, changed({"topicCreation/control": control})).topic_creation
    assert creation.control_topic("commit") == ControlTopicSettings(
        partitions=1, replication=2, config={"a": "1", "b": "2"}
    )
    assert creation.control_topic("assignment") == creation.control.common


@pytest.mark.parametrize(("given", "read"), [("earliest", "earliest"), ("latest", "latest"), ("none", "none")])
def test_where_to_start(tmp_path: Path, given: str, read: str) -> None:
    assert load_text(tmp_path, changed({"source/kafka/consumer/auto.offset.reset": given})).start_from("orders") == read
