"""The documented permissions are those that the programs use."""

from __future__ import annotations

import re
from pathlib import Path

from k2k_assets.permissions.required import PROGRAMS, needs
from k2k_assets_tests.support.copies.pipelines import make_pipeline

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


def test_the_documented_permissions_are_those_that_are_needed(tmp_path: Path) -> None:
    features = {"offsetMapping": "enabled", "exactlyOnce": "enabled"}
    pipeline = make_pipeline(tmp_path, "s:1", "t:1", ["topic"], features=features)
    listed: dict[tuple[str, str, str], tuple[list[str], list[str]]] = {}
    for program in PROGRAMS:
        for need in needs(pipeline, program):
            programs, reasons = listed.setdefault((need.cluster, need.subject, need.operation), ([], []))
            programs.extend([program] if program not in programs else [])
            reasons.extend([need.why] if need.why not in reasons else [])
    wanted = {(*key, ", ".join(programs), "; ".join(reasons)) for key, (programs, reasons) in listed.items()}
    section = PAGE.read_text().split("\n## Permissions\n")[1].split("\n## ")[0]
    told = re.findall(r"^\| (source|target) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", section, re.MULTILINE)
    assert set(told) == wanted
    assert len(told) == len(wanted)
