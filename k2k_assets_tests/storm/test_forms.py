"""By which form a storm has copied is read from the logs; going back to records is a problem, and so is no session."""

from __future__ import annotations

from pathlib import Path

from k2k_assets_tests.storm.forms import Sessions, forms_of, sessions_of

BATCHES = "12:00:00 INFO slot 0 copies by whole batches from now on\n"
RECORDS = "12:00:00 INFO slot 1 copies by records from now on\n"
BACK = "12:00:01 WARNING slot 0 copies record by record, not by whole batches: too old\n"


def test_the_logs_of_all_instances_count(tmp_path: Path) -> None:
    (tmp_path / "instance-000.log").write_text(BATCHES + BACK + RECORDS)
    (tmp_path / "opposite-instance-001.log").write_text(BATCHES)
    found = sessions_of(tmp_path)
    assert (found.by_batches, found.by_records, dict(found.back)) == (2, 1, {"too old": 1})
    assert found.words() == "2 by whole batches, 1 by records; 1 x back to records: too old"
    assert (
        found.problems("batches", "processes")
        == found.problems("mixed", "processes")
        == ["1 x a slot went back to records: too old"]
    )


def test_a_form_that_was_wanted_and_did_nothing_is_a_problem() -> None:
    assert Sessions().problems("batches", "processes") == ["no session copied by whole batches"]
    assert Sessions().problems("records", "processes") == ["no session copied by records"]
    assert Sessions(by_records=1).problems("mixed", "processes") == ["no session copied by whole batches"]
    assert Sessions(by_records=1, by_batches=1).problems("mixed", "processes") == []
    assert Sessions().problems("batches", "dagster") == []


def test_instances_take_turns() -> None:
    assert [list(forms_of(form)) for form in ("records", "batches", "mixed")] == [
        ["records"],
        ["batches"],
        ["batches", "records"],
    ]
