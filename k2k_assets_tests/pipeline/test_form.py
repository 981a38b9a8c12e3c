"""`transport.form`: how records are brought to the target."""

from __future__ import annotations

from pathlib import Path

from k2k_assets_tests.pipeline.files import changed, load_text, refusal

BATCHES = {"transport/form": "batches"}


def test_records_are_moved_one_by_one_unless_the_file_says_batches(tmp_path: Path) -> None:
    assert load_text(tmp_path, changed({})).transport.form == "records"
    exactly_once = {"features/exactlyOnce": "enabled", **BATCHES}
    assert load_text(tmp_path, changed(exactly_once)).transport.form == "batches"


def test_batches_need_transactions(tmp_path: Path) -> None:
    said = refusal(tmp_path, changed({"features/exactlyOnce": "disabled", **BATCHES}))
    assert "transport.form: batches are moved exactly once only" in said
