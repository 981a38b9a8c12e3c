"""Checks apply functions that hang or end their process at some records: it costs those records only."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.transform import TransformRule, transform_text
from k2k_assets.verification.content.expected_changes import ChangeRules, Changes
from k2k_assets_tests.support.copies.unruly import function_beside

pytestmark = pytest.mark.processes

AT = TopicPartition("orders", 0)


@pytest.mark.parametrize(("way", "seconds"), [(b"exit", 60.0), (b"segfault", 60.0), (b"search", 5.0)])
def test_records_that_stop_a_copy_are_passed_and_all_others_are_judged(
    tmp_path: Path, way: bytes, seconds: float
) -> None:
    rule = TransformRule.model_validate({"pattern": ".*", "python": function_beside(tmp_path)})
    folders = [str(tmp_path)]
    changes = Changes(ChangeRules(transform_text([rule], folders), folders), seconds)
    values = [b"v%d" % n for n in range(12)]
    values[7] = way
    count = len(values)
    found = changes._applied(AT, range(count), [0] * count, [None] * count, list(values), [None] * count)
    assert [each.value for each in found] == [v if n == 7 else v.upper() for n, v in enumerate(values)]
    assert {each.rule for each in found} == {None}
