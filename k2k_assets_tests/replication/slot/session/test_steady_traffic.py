"""Records that trickle in wait for a commit about as long as a commit takes, at any rate."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets_tests.replication.slot.session.harness import P0, Harness
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_transport import Arrival

COUNT = 400
COST = 0.004
# librdkafka asks again so much later whether a partition may join a transaction.
REFUSED_SECONDS = 0.02


class Steady:
    """A steady stream of records into a target whose commits take time.

    Args:
        markers: For how long after a commit the target writes its markers, seconds: what is sent before is refused.

    Attributes:
        due: When the source has each record, seconds.
        sent: When the first record of each transaction was sent, and which.
        committed: When each transaction was committed.
    """

    def __init__(self, harness: Any, pipeline: Any, per_second: float, markers: float) -> None:
        self.due = [1 + n / per_second for n in range(COUNT)]
        self.made: Harness = harness(
            [Arrival(at, P0, n) for n, at in enumerate(self.due)], {P0: COUNT}, pipeline=pipeline
        )
        self.sent: list[tuple[float, int]] = []
        self.committed: list[float] = []
        self._markers = markers
        self._empty = True
        sink: Any = self.made.sink
        self._write, self._commit = sink.write, sink.commit
        sink.write, sink.commit = self._sends, self._commits
        self.made.run()

    def waits(self) -> list[float]:
        """How long each record waited until it was committed, sorted."""
        transactions = zip(self.committed, self.made.sink.transactions, strict=True)
        waits = [
            at - self.due[offset]
            for at, transaction in transactions
            for chunk in transaction.chunks
            for offset in chunk.records.offsets()
        ]
        assert len(waits) == COUNT
        return sorted(waits)

    @property
    def _now(self) -> float:
        return self.made.clock.now - self.made.began

    def _sends(self, chunk: Chunk) -> Sent:
        if self._empty:
            self.sent.append((self._now, chunk.records.first_offset))
        self._empty = False
        sent: Sent = self._write(chunk)
        return sent

    def _commits(self) -> None:
        refused = not self._empty and self.committed and self.sent[-1][0] < self.committed[-1] + self._markers
        self.made.clock.advance(COST + (REFUSED_SECONDS if refused else 0))
        self.committed.append(self._now)
        self._empty = True
        self._commit()


@pytest.fixture
def steady(harness: Any, tmp_path: Path) -> Any:
    def make(per_second: float, markers: float = 0.0, exactly_once: str = "enabled", **sync: str) -> Steady:
        pipeline = make_pipeline(
            tmp_path,
            "a:1",
            "b:1",
            ["t"],
            features={"exactlyOnce": exactly_once, "offsetMapping": "enabled"},
            coordination={"commit": {"topic": "commits"}, "assignment": {"topic": "claims"}},
            sync=sync,
        )
        return Steady(harness, pipeline, per_second, markers)

    return make


@pytest.mark.parametrize("per_second", [200, 5000])
@pytest.mark.parametrize("markers", [0.0, 0.5 * COST])
def test_most_records_wait_two_commits_at_most(steady: Any, per_second: float, markers: float) -> None:
    waits = steady(per_second, markers).waits()
    assert waits[COUNT // 2] <= 2.1 * COST
    assert waits[-1] <= 3.5 * COST


def test_a_lone_record_waits_for_its_own_commit_only(steady: Any) -> None:
    assert steady(per_second=10).waits()[-1] == pytest.approx(COST, abs=0.0015)


def test_who_wants_fewer_transactions_gets_them(steady: Any) -> None:
    traffic = steady(200, minCommitInterval="100 milliseconds")
    with_records = [
        at for at, made in zip(traffic.committed, traffic.made.sink.transactions, strict=True) if made.chunks
    ]
    assert all(later - earlier >= 0.0999 for earlier, later in pairwise(with_records[:-1]))


def test_at_least_once_a_record_is_sent_before_a_commit_is_due(steady: Any) -> None:
    traffic = steady(200, exactly_once="disabled", minCommitInterval="100 milliseconds")
    assert len(traffic.sent) > 10
    assert all(at - traffic.due[offset] <= COST for at, offset in traffic.sent)
