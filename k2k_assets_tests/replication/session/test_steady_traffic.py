"""Records that trickle in wait for a commit about as long as a commit takes, at any rate."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from k2k_assets_tests.replication.session.bench import P0
from k2k_assets_tests.support.fake_transport import Arrival
from k2k_assets_tests.support.pipelines import make_pipeline

COUNT = 400


def _waits(bench: Any, directory: Path, per_second: float, cost: float, **sync: str) -> tuple[list[float], list[float]]:
    """How long each record of a steady stream waited until it was committed, and when commits were made."""
    pipeline = make_pipeline(
        directory,
        "a:1",
        "b:1",
        ["t"],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        coordination={"commit": {"topic": "commits"}, "assignment": {"topic": "claims"}},
        sync=sync,
    )
    due = [1 + n / per_second for n in range(COUNT)]
    made = bench([Arrival(at, P0, n) for n, at in enumerate(due)], {P0: COUNT}, pipeline=pipeline)
    commit, committed_at = made.sink.commit, []

    def slowly() -> None:
        made.clock.advance(cost)
        committed_at.append(made.clock.now - made.began)
        commit()

    made.sink.commit = slowly
    made.run()
    waits, ends = [], []
    for at, transaction in zip(committed_at, made.sink.transactions, strict=True):
        if transaction.chunks:
            ends.append(at)
            waits += [at - due[offset] for chunk in transaction.chunks for offset in chunk.records.offsets()]
    assert len(waits) == COUNT
    return sorted(waits), ends


@pytest.mark.parametrize("per_second", [200, 5000])
def test_most_records_wait_two_commits_at_most(bench: Any, tmp_path: Path, per_second: float) -> None:
    cost = 0.004
    waits, _ = _waits(bench, tmp_path, per_second, cost)
    assert waits[COUNT // 2] <= 2.1 * cost
    assert waits[-1] <= 3.5 * cost


def test_a_lone_record_waits_for_its_own_commit_only(bench: Any, tmp_path: Path) -> None:
    waits, _ = _waits(bench, tmp_path, per_second=10, cost=0.004)
    assert waits[-1] == pytest.approx(0.004, abs=0.0015)


def test_who_wants_fewer_transactions_gets_them(bench: Any, tmp_path: Path) -> None:
    _, ends = _waits(bench, tmp_path, 200, 0.004, minCommitInterval="100 milliseconds")
    assert all(later - earlier >= 0.0999 for earlier, later in pairwise(ends[:-1]))
