"""The rooms that `make lint` keeps apart are those that the docs show, in the same order."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_docs_show_the_rooms_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    page = (ROOT / "docs" / "architecture.md").read_text()
    shown = re.findall(
        r"^  (\w+)(?:/|\.py) ", page.partition("```text\nk2k_assets/\n")[2].partition("```")[0], re.MULTILINE
    )

    assert shown == list(reversed(layers))
