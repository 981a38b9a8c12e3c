"""The JSON Schema for editors: as published, and it accepts the same files as the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from k2k_assets.pipeline.json_schema import json_schema, text
from k2k_assets_tests.groups.test_mapper_file import MAPPER_ONLY
from k2k_assets_tests.pipeline.files import TUTORIAL, changed
from k2k_assets_tests.pipeline.test_features_that_are_off import SECTIONS
from k2k_assets_tests.pipeline.test_k2k_keys import ACCEPTED

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


def faults(validator: jsonschema.Draft202012Validator, document: Any) -> list[str]:
    return [error.message for error in validator.iter_errors(document)]


def test_the_published_schema_is_up_to_date() -> None:
    written = (ROOT / "docs" / "pipeline.schema.json").read_text(encoding="utf-8")
    assert written == text(), "run: make docs"


def test_what_the_models_accept_the_schema_accepts(validator: jsonschema.Draft202012Validator) -> None:
    texts = [TUTORIAL, changed(ACCEPTED), changed(SECTIONS)]
    texts += [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.yaml"))]
    for written in texts:
        assert faults(validator, yaml.safe_load(written)) == []
    assert faults(validator, MAPPER_ONLY) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("features/exactlyOnce", True),
        ("features/exactlyOnes", "enabled"),
        ("features/tracingHeaders", "maybe"),
        ("coordination/commit/batchSize", 0),
        ("coordination/commit/syncTimeout", "5 s"),
        ("coordination/commit/topic", "a/b"),
        ("replication/1/sink/topic", "copy.$1"),
        ("replication/1/sink/topic", {}),
        ("replication/1/sink/topic", {"prefix": "a", "static": "b"}),
        ("replication/1/sink/partition", "other"),
        ("replication/0/source/topic", 5),
        ("source/kafka/common/client.id", {"x": 1}),
        ("schemaMapping/topics", [{"key": "enabled"}]),
        ("transform", [{"pattern": "a", "drop": [{"value": "a[*].b"}]}]),
        ("transform", [{"pattern": "a", "filter": {"key": "$a", "exists": True}}]),
        ("nmae", "x"),
        ("replication", None),
    ],
)
def test_what_the_models_refuse_the_schema_refuses(
    validator: jsonschema.Draft202012Validator, path: str, value: object
) -> None:
    assert faults(validator, yaml.safe_load(changed({path: value})))


def test_every_key_is_described_and_defaults_are_as_the_file_writes_them() -> None:
    schema = json_schema()
    for section in (schema, *schema["$defs"].values()):
        for key, value in section.get("properties", {}).items():
            assert value.get("description"), key
    assert schema["$defs"]["Commit"]["properties"]["syncTimeout"]["default"] == "30 seconds"
    assert schema["$defs"]["Features"]["properties"]["autoCreateTopics"]["default"] == "enabled"
    assert json.loads(text()) == schema
