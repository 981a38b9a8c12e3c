"""`spark.slots`: auto or a number, and the same number under K2K's key."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets_tests.pipeline.files import changed, load_text, refusal

K2K = "configuration/partitionParallelism"


@pytest.mark.parametrize(
    ("keys", "slots", "key"),
    [
        ({}, None, "spark.slots"),
        ({"spark/slots": "auto"}, None, "spark.slots"),
        ({"spark/slots": 3}, 3, "spark.slots"),
        ({"spark/slots": None}, None, "spark.slots"),
        ({K2K: 3}, 3, "configuration.partitionParallelism"),
        ({"spark/slots": 3, K2K: 3}, 3, "configuration.partitionParallelism"),
    ],
)
def test_what_is_asked_for(tmp_path: Path, keys: dict[str, object], slots: int | None, key: str) -> None:
    pipeline = load_text(tmp_path, changed(keys))
    assert (pipeline.slots, pipeline.slots_key) == (slots, key)


@pytest.mark.parametrize("slots", [2, "auto"])
def test_two_keys_that_contradict_each_other_are_refused(tmp_path: Path, slots: object) -> None:
    said = refusal(tmp_path, changed({"spark/slots": slots, K2K: 3}))
    assert "spark.slots: contradicts configuration.partitionParallelism, which is 3" in said


@pytest.mark.parametrize("slots", [0, -1, 2**31, True, "2", "all", 1.5, [2]])
def test_nothing_else_is_a_number_of_slots(tmp_path: Path, slots: object) -> None:
    assert "spark.slots: expected auto, or a whole number from 1" in refusal(tmp_path, changed({"spark/slots": slots}))
