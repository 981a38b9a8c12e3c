"""A function whose code is another one now keeps only its own topics from being compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.transform import TransformRule, transform_text
from k2k_assets.verification.content.expected_changes import ChangeRules, KnownChanges
from k2k_assets.verification.content.expected_headers import ClusterIds
from k2k_assets.verification.content.record_pair import RecordPlace, ShownRecord, differences_of
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline

MASK = {"pattern": "p.*", "mask": [{"value": "card", "with": "*"}]}
TEXT = "def f(records):\n    return records\n"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / f"{unique('rules').replace('-', '_')}.py"
    path.write_text(TEXT)
    return path


@pytest.fixture
def rules(module: Path) -> ChangeRules:
    """A mask for two topics, a function for one of them, a filter for the other, and a function for a third."""
    (module.parent / f"{module.stem}_other.py").write_text(TEXT)
    of_file = [
        MASK,
        {"pattern": "payments", "python": f"{module.stem}:f"},
        {"pattern": "payouts", "filter": {"value": "a", "exists": True}},
        {"pattern": "refunds", "python": f"{module.stem}_other:f"},
    ]
    folders = [str(module.parent)]
    return ChangeRules(
        transform_text([TransformRule.model_validate(rule) for rule in of_file], folders), tuple(folders)
    )


@pytest.mark.processes
@pytest.mark.processes
@pytest.mark.parametrize("text", [f"# edited\n{TEXT}", f"raise ImportError('not here')\n{TEXT}", None])
def test_topics_without_the_function_are_judged_by_their_own_rules(
    rules: ChangeRules, module: Path, text: str | None
) -> None:
    module.unlink() if text is None else module.write_text(text)
    known = KnownChanges()
    assert known.of(rules, "payments") is None
    assert known.of(rules, "orders") == ChangeRules("")
    of_other, found = known.of(rules, "refunds"), known.of(rules, "payouts")
    assert of_other is not None
    assert found is not None
    others, changes = known.opened(of_other), known.opened(found)
    assert others is not None
    assert changes is not None
    assert others.of_parts(TopicPartition("refunds", 0), 0, 0, None, b"{}", []).value == b"{}"
    at = TopicPartition("payouts", 0)
    kept = changes.of_parts(at, 0, 0, None, b'{"a":1,"card":2}', [])
    assert (kept.value, kept.rule) == (b'{"a":1,"card":"*"}', None)
    assert changes.of_parts(at, 1, 0, None, b"{}", []).rule == "transform[2].filter", "rules keep their numbers"


@pytest.mark.processes
@pytest.mark.processes
def test_with_the_code_of_the_copy_all_topics_are_judged(rules: ChangeRules) -> None:
    known = KnownChanges()
    for topic in ("payments", "payouts", "refunds"):
        assert known.of(rules, topic)
    assert known.of(rules, "orders") == ChangeRules("")


def test_rules_without_functions_stay_as_they_are() -> None:
    rules = ChangeRules(transform_text([TransformRule.model_validate(MASK)], []))
    assert rules.of_topic("payouts") == rules


def test_of_two_records_of_other_topics_the_function_is_not_asked(
    rules: ChangeRules, module: Path, tmp_path: Path
) -> None:
    module.write_text(f"# edited\n{TEXT}")
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"])
    settings = replace(CopySettings.of(pipeline), transform=rules.text)
    record = ShownRecord(None, b"{}", (), 1, by_broker=False)

    def compared(topic: str) -> list[str]:
        place = RecordPlace(TopicPartition(topic, 0), 0)
        return differences_of(pipeline, place, record, record, ClusterIds("a", "b"), settings).parts

    assert compared("orders") == []
    with pytest.raises(Refused, match=rf"transform\[1\]\.python: the code of {module.stem}:f is another one than"):
        compared("payments")
