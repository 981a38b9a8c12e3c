"""The JSON Schema of the pipeline file, for editors: `python -m k2k_assets.pipeline.json_schema`, or `k2k schema`.

docs/pipeline.schema.json is its output, and a test compares the two. It describes single keys. `k2k validate` checks
rules between keys and regular expressions.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from k2k_assets.pipeline.model import Pipeline
from k2k_assets.pipeline.parsing import known_keys
from k2k_assets.pipeline.parsing.schema import MAPPER_ALONE
from k2k_assets.pipeline.sections.predicates import nest_conditions
from k2k_assets.pipeline.sections.values import format_duration

_TITLE = "A pipeline of K2K Assets"


class _Generator(GenerateJsonSchema):
    """Writes defaults as in the file, and omits titles because an editor shows the keys."""

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, bool):
            return "enabled" if dft else "disabled"
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema() -> dict[str, Any]:
    """The schema, as JSON has it."""
    schema = Pipeline.model_json_schema(by_alias=True, schema_generator=_Generator)
    definitions = schema.pop("$defs")
    for section in (schema, *definitions.values()):
        section.pop("title", None)
        for key, value in section.get("properties", {}).items():
            value.pop("title", None)
            _describe(value, definitions)
            if key not in section.get("required", ()):
                _let_it_be_taken_away(value)
    condition = definitions["TransformRule"]["properties"]["filter"]
    nest_conditions(condition["anyOf"][0], "#/$defs/TransformRule/properties/filter")
    for (key,), why in known_keys.IGNORED.items():
        schema["properties"][str(key)] = {"description": f"No effect: {why}."}
    schema["required"] = [key for key in schema["required"] if key != "replication"]
    schema["anyOf"] = [{"required": [key]} for key in ("replication", *MAPPER_ALONE)]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": _TITLE}
    return {**head, **schema, "$defs": definitions}


def _describe(value: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Adds the description that a key shares with its section, because pydantic omits it."""
    if "description" not in value and "$ref" in value:
        value["description"] = definitions[value["$ref"].rpartition("/")[2]]["description"]


def _let_it_be_taken_away(value: dict[str, Any]) -> None:
    """Allows `key: null`, which means that the key is absent."""
    told: dict[str, Any] = {name: value.pop(name) for name in ("description", "default") if name in value}
    kinds = value.pop("anyOf") if set(value) == {"anyOf"} else [dict(value)]
    value.clear()
    null = {"type": "null"}
    value.update(told, anyOf=[*kinds, null] if null not in kinds else kinds)


def text() -> str:
    """The schema's text."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
