"""Longest time between two commits: as in the file, and no longer than a transaction may be open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.replication.slot import session as module
from k2k_assets_tests.replication.slot.session.harness import P0, arrivals
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@pytest.mark.parametrize(("mode", "seconds"), [("enabled", 2), ("disabled", 3)])
def test_a_transaction_is_closed_long_before_it_times_out_and_what_is_none_is_not(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, seconds: float
) -> None:
    """It times out after four seconds, and the file says three."""
    monkeypatch.setattr(module, "_CHUNK", 5)
    pipeline = make_pipeline(
        tmp_path,
        "a:1",
        "b:1",
        ["t"],
        features={"exactlyOnce": mode, "offsetMapping": "enabled"},
        producer={"transaction.timeout.ms": 4000},
        coordination={
            "commit": {"topic": "commits", "batchSize": 100_000, "batchTimeout": "3 seconds"},
            "assignment": {"topic": "claims"},
        },
    )
    made = harness(arrivals(*range(1000)), {P0: 1000}, poll_seconds=0.05, pipeline=pipeline).run()
    assert made.times()[0] == pytest.approx(seconds, abs=0.2)
