"""The evidence of a failed check: its offenders, and the command that shows the first one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.checks.asset_checks import asset_check_result
from k2k_assets.verification.verdict import Judgement, Offender, Verdict, VerifiedPosition

_CHECK = dg.AssetCheckKey(dg.AssetKey(["p", "offset_mappings"]), "content")
_FILES = (Path("/etc/k2k/base.yaml"), Path("/etc/k2k/my orders.yaml"))
_BOTH = Offender("differs", "orders", 3, 120, "copy.orders", 2, 118)


def _shown(*offenders: Offender, files: tuple[Path, ...] = _FILES) -> dict[str, Any]:
    verdict = Verdict(Judgement.FAILED, "1 offending", {"offending": 1}, offenders)
    result = asset_check_result(_CHECK, verdict, files)
    assert not result.passed
    return dict(result.metadata)


def test_records_that_offend_with_the_command_for_the_first() -> None:
    shown = _shown(Offender("a partition without records", "orders", 1), _BOTH)
    (_, row) = shown[keys.OFFENDERS].records
    assert (row.data["source offset"], row.data["target offset"]) == (120, 118)
    command = shlex.split(str(shown[keys.SHOW].value))
    assert command == [
        *("k2k-tool", "show", "-f", "/etc/k2k/base.yaml,/etc/k2k/my orders.yaml"),
        *("-o", "orders:3:120", "--target", "copy.orders:2:118"),
    ]


@pytest.mark.parametrize(
    ("offender", "places"),
    [
        (Offender("never copied", "orders", 3, 120), ["-o", "orders:3:120"]),
        (Offender("nobody's", None, None, None, "copy.orders", 2, 118), ["--target", "copy.orders:2:118"]),
    ],
)
def test_one_side_alone(offender: Offender, places: list[str]) -> None:
    """Of an offender on one side the command names that side."""
    assert shlex.split(str(_shown(offender)[keys.SHOW].value))[-2:] == places


def test_no_command_without_a_record_or_without_a_file() -> None:
    assert keys.SHOW not in _shown(Offender("a rule is broken"))
    assert keys.SHOW not in _shown(_BOTH, files=())


def test_how_far_each_partition_is_verified_what_is_bad_comes_first() -> None:
    positions = [
        VerifiedPosition("t", 0, 100, 100, 100, 100, 0),
        VerifiedPosition("t", 1, 90, 100, 80, 20, 0),
        VerifiedPosition("t", 2, None, 100, 20, 0, 1),
    ]
    shown = dict(asset_check_result(_CHECK, Verdict(Judgement.PASSED, "good", verified=positions)).metadata)
    table: Any = shown[keys.VERIFIED]
    assert [row.data["partition"] for row in table.records] == [2, 1, 0]
    assert [row.data["looked at, %"] for row in table.records] == [0.0, 25.0, 100.0]
    assert [row.data["verified to"] for row in table.records] == [None, 90, 100]
    assert shown[keys.LOOKED_AT].value == 60.0
    assert keys.WAY not in shown
    by_batches = Verdict(Judgement.PASSED, "good", way="10 records compared by batches")
    assert dict(asset_check_result(_CHECK, by_batches).metadata)[keys.WAY].value == by_batches.way
    assert keys.VERIFIED not in _shown(_BOTH)
