"""What docs/telemetry.md says."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"


def named_in(heading: str) -> set[str]:
    """The metrics that a section names in its table."""
    section = _PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(k2k\.[a-z._]+)` \|", section, re.MULTILINE))
