"""docs/stops.md agrees with the list of stop reasons."""

from __future__ import annotations

from pathlib import Path

from k2k_assets.core.stops.catalog import ALL
from k2k_assets.core.stops.page import page

ROOT = Path(__file__).parents[3]


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "stops.md").read_text(encoding="utf-8") == page(), "run: make docs"


def test_each_reason_has_a_section_that_the_index_leads_to() -> None:
    written = page()
    assert [code for code in ALL if f"(#{code})" not in written or f"### {code}\n" not in written] == []
