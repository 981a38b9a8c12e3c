"""`groups` and the other keys of the offset mapper."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from k2k_assets_tests.pipeline.files import changed, load_text, refusal


def test_defaults(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, changed({}))
    groups = pipeline.groups
    assert (groups.poll_interval, groups.consumer_groups) == (timedelta(seconds=5), ".*")
    assert (groups.offset_guard_prefix, groups.on_foreign_target_commit) == ("k2k_", "skip")
    assert pipeline.features.mappings_guard
    policies = pipeline.error_handling
    assert policies.on_active_consumer_group_commit == "fail"
    assert policies.on_multiple_target_committed_offsets == "fail"
    retention = pipeline.offset_mapping.retention
    assert (retention.time, retention.count, retention.schedule) == (None, None, timedelta(minutes=5))


@pytest.mark.parametrize("given", ["a.*", ["one", "two", "one"]])
def test_the_filter_is_an_expression_or_a_list(tmp_path: Path, given: str | list[str]) -> None:
    pipeline = load_text(tmp_path, changed({"groups/consumerGroups": given}))
    assert pipeline.groups.consumer_groups == (given if isinstance(given, str) else ("one", "two"))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("groups/consumerGroups", "a[", "groups.consumerGroups: expected a regular expression"),
        ("groups/consumerGroups", [], "a list of group names"),
        ("groups/consumerGroups", ["a", ""], "groups.consumerGroups[1]: expected a group name"),
        ("groups/pollInterval", "0 seconds", "expected a duration above zero"),
        ("groups/pollInterval", "soon", "expected a duration such as"),
        ("groups/offsetGuardPrefix", "", "expected a text that is not empty"),
        ("groups/onForeignTargetCommit", "fail", "'skip' or 'overwrite'"),
        ("groups/consumerGroup", "a", "did you mean consumerGroups?"),
        ("features/applyMappingsGuard", True, "Write enabled."),
        ("errorHandling/onActiveConsumerGroupCommit", "skip", "'fail' or 'ignore'"),
        ("offsetMapping/retention/time", "forever", "expected a duration such as"),
        ("offsetMapping/retention/count", 0, "a number of at least 1"),
    ],
)
def test_faults_are_told(tmp_path: Path, key: str, value: Any, message: str) -> None:
    assert message in refusal(tmp_path, changed({key: value}))


@pytest.mark.parametrize("key", ["applyMappingsGuard", "applyMappingsGuards"])
def test_the_guard_has_two_spellings(tmp_path: Path, key: str) -> None:
    assert not load_text(tmp_path, changed({f"features/{key}": "disabled"})).features.mappings_guard


def test_the_two_spellings_must_agree(tmp_path: Path) -> None:
    both = {"features/applyMappingsGuard": "enabled", "features/applyMappingsGuards": "disabled"}
    assert "contradicts applyMappingsGuard" in refusal(tmp_path, changed(both))


@pytest.mark.parametrize(("given", "time"), [("topic", None), ("2 hours", timedelta(hours=2))])
def test_retention_in_memory(tmp_path: Path, given: str, time: timedelta | None) -> None:
    pipeline = load_text(tmp_path, changed({"offsetMapping/retention": {"time": given, "count": 7}}))
    assert (pipeline.offset_mapping.retention.time, pipeline.offset_mapping.retention.count) == (time, 7)
