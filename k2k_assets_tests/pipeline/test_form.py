"""`transport.form`: how records are brought to the target."""

from __future__ import annotations

from pathlib import Path

from k2k_assets_tests.pipeline.files import changed, load_text


def test_batches_are_moved_where_that_is_possible_unless_the_file_says_records(tmp_path: Path) -> None:
    assert load_text(tmp_path, changed({})).transport.form == "auto"
    for mode in ("enabled", "disabled"):
        for form in ("batches", "records"):
            pipeline = load_text(tmp_path, changed({"features/exactlyOnce": mode, "transport/form": form}))
            assert pipeline.transport.form == form
