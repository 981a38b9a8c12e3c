"""The demo's summary: its numbers, and a failure for every fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2k_assets.demo.decoded import Decoded
from k2k_assets.demo.groups import Resumed
from k2k_assets.demo.summary import Shown, TopicRow, faults, summary
from k2k_assets.orchestration.materialize import CheckResult, Materialized

ROWS = [
    TopicRow(
        "orders", written=1500, records=1500, bytes=12_345, source_end=1600, target_end=1510, runs=7, seconds=1.25
    ),
    TopicRow("empty", written=0, records=0, bytes=0, source_end=0, target_end=0, runs=0, seconds=1.25),
]
GROUPS = [Resumed("billing", read=900, unread=600, resumed=600, skipped=0, again=0, in_order=True, state="3 exact")]
DECODED = Decoded("readings", values=3000, source_ids=(1, 2), target_ids=(12, 13), faults=())
GOOD = Materialized(
    metadata={"demo/topics/orders": {}, "demo/topics/empty": {}},
    checks=(
        CheckResult("copies_on", "passed", "no partition of orders is stopped", "demo/topics/orders"),
        CheckResult("copies_on", "passed", "no partition of empty is stopped", "demo/topics/empty"),
        CheckResult("coverage", "passed", "all is answered for " * 10, "demo/offset_mappings"),
        CheckResult("content", "passed", "same"),
        CheckResult("resumes_exactly", "passed", "same", "demo/consumer_groups/billing"),
    ),
    failures=(),
    missing=(),
)


def test_a_good_run() -> None:
    assert faults(Shown(ROWS, GROUPS, DECODED, GOOD)) == []
    said = summary(Shown(ROWS, GROUPS, DECODED, GOOD), 80)
    assert "orders    1,500  12,345       1,600       1,510       7      1.2" in said
    assert "  passed  content    same" in said
    assert [line for line in said.splitlines() if "copies_on" in line] == ["  passed  copies_on  holds for 2 topics"]
    assert "  passed  readings  3,000 values: schemas 1, 2 of the source are 12, 13" in said
    assert "  passed  billing  3 exact: 900 read on the source, 600 unread; 600 read on the target, " in said
    assert said.endswith("1,500 records written and committed on the source, 1,500 copied. 2 assets materialized, "
                         "5 checks passed.")  # fmt: skip
    assert max(len(line) for line in said.splitlines()[:-1] if "billing" not in line) <= 80


@pytest.mark.parametrize(
    ("rows", "result", "fault"),
    [
        ([replace(ROWS[0], records=1499)], GOOD, "orders: 1,500 records written, 1,499 copied"),
        (ROWS, replace(GOOD, failures=("demo_op_topics: why",)), "demo_op_topics: why"),
        (ROWS, replace(GOOD, missing=("demo/commit_log",)), "demo/commit_log: not materialized"),
        (ROWS, replace(GOOD, checks=(CheckResult("content", "failed", "x"),)), "check content: failed"),
        ([], replace(GOOD, checks=(), failures=("demo_op_topics: why",)), "demo_op_topics: why"),
    ],
)
def test_what_is_wrong_is_said(rows: list[TopicRow], result: Materialized, fault: str) -> None:
    assert faults(Shown(rows, GROUPS, DECODED, result)) == [fault]
    assert summary(Shown(rows, GROUPS, DECODED, result), 80).endswith(f"Not everything is as it must be:\n  {fault}")


@pytest.mark.parametrize(
    ("group", "fault"),
    [
        (replace(GROUPS[0], skipped=1, resumed=599), "group billing: 1 record skipped, 0 read again"),
        (replace(GROUPS[0], again=2), "group billing: 0 records skipped, 2 read again"),
        (
            replace(GROUPS[0], in_order=False),
            "group billing: 0 records skipped, 0 read again, not in the order of the source",
        ),
    ],
)
def test_a_group_that_strays_is_a_failure(group: Resumed, fault: str) -> None:
    assert faults(Shown(ROWS, [group], DECODED, GOOD)) == [fault]
    assert summary(Shown(ROWS, [group], DECODED, GOOD), 80).endswith(f"Not everything is as it must be:\n  {fault}")


def test_a_topic_that_does_not_pass_its_check_has_its_own_line() -> None:
    bad, good, *rest = GOOD.checks
    stopped = replace(bad, judgement="failed", summary="1 of 1 partition is stopped")
    result = replace(GOOD, checks=(stopped, good, *rest))
    said = summary(Shown(ROWS, GROUPS, DECODED, result), 80)
    assert "  failed  copies_on  1 of 1 partition is stopped" in said
    assert "  passed  copies_on  holds for 1 topic" in said
    assert said.endswith("Not everything is as it must be:\n  check copies_on: failed")


def test_a_doubt_is_no_failure() -> None:
    doubtful = replace(GOOD, checks=(CheckResult("content", "warned", "nothing is comparable"),))
    assert faults(Shown(ROWS, GROUPS, DECODED, doubtful)) == []
    assert summary(Shown(ROWS, GROUPS, DECODED, doubtful), 80).endswith("2 assets materialized, 1 check in doubt.")


def test_values_that_are_not_decoded_on_the_target_are_a_failure() -> None:
    bad = replace(DECODED, values=2993, faults=tuple(f"readings-0, value {n}: no schema id" for n in range(7)))
    said = summary(Shown(ROWS, GROUPS, bad, GOOD), 80)
    assert "  failed  readings  2,993 values: schemas 1, 2 of the source are 12, 13" in said
    assert said.endswith("  readings-0, value 4: no schema id\n  and 2 more")


def test_without_registries_nothing_is_said_of_schemas() -> None:
    assert "Values with schemas" not in summary(Shown(ROWS, GROUPS, None, GOOD), 80)
