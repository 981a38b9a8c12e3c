from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.pipeline.sections.schema_mapping import RefusedPayloads
from k2k_assets_tests.pipeline.files import changed, load_text, refusal


def rules(*given: dict[str, Any]) -> str:
    return changed({"schemaMapping/topics": list(given)})


def test_the_first_rule_that_matches_says_what_is_refused(tmp_path: Path) -> None:
    strict = {"pattern": "orders", "value": "enabled", "unframed": "refused"}
    stricter = {"pattern": "o.*", "key": "enabled", "unframed": "untouched", "nulls": "refused"}
    mapping = load_text(tmp_path, rules(strict, stricter, {"pattern": ".*", "key": "enabled"})).schema_mapping
    assert mapping.refusals("orders") == RefusedPayloads(unframed=True)
    assert mapping.refusals("others") == RefusedPayloads(nulls=True)
    assert mapping.refusals("payments") == RefusedPayloads()


def test_nothing_is_refused_where_no_rule_matches(tmp_path: Path) -> None:
    assert load_text(tmp_path, changed({})).schema_mapping.refusals("orders") == RefusedPayloads()
    one = {"pattern": "orders", "key": "enabled", "nulls": "refused"}
    assert load_text(tmp_path, rules(one)).schema_mapping.refusals("payments") == RefusedPayloads()


@pytest.mark.parametrize("key", ["unframed", "nulls"])
def test_a_rule_that_expects_no_schema_refuses_nothing(tmp_path: Path, key: str) -> None:
    words = refusal(tmp_path, rules({"pattern": ".*", key: "refused"}))
    assert f"schemaMapping.topics[0].{key}: expected key or value enabled, or untouched" in words


def test_other_words_are_refused(tmp_path: Path) -> None:
    words = refusal(tmp_path, rules({"pattern": ".*", "key": "enabled", "nulls": "enabled"}))
    assert "schemaMapping.topics[0].nulls: expected 'untouched' or 'refused', found 'enabled'" in words
