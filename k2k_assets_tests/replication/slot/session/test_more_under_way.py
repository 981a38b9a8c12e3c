"""While the source is known to have more, a transaction waits for it a little, so that few large ones are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets_tests.replication.slot.session.harness import P0, pipeline_with
from k2k_assets_tests.support.memory.fake_transport import Arrival

COUNT, APART = 30, 0.02


@pytest.mark.parametrize("is_known", [True, False])
def test_what_comes_in_portions_is_one_transaction_if_more_is_known(
    harness: Any, tmp_path: Path, is_known: bool
) -> None:
    due = [1 + n * APART for n in range(COUNT)]
    pipeline = pipeline_with(tmp_path, batch_size=1000)
    made = harness([Arrival(at, P0, n) for n, at in enumerate(due)], {P0: COUNT}, pipeline=pipeline)
    made.source.knows_more = lambda: is_known and made.clock.now - made.began < due[-1]
    made.run()
    if is_known:
        assert made.times() == [pytest.approx(due[-1], abs=0.06)]
    else:
        assert len(made.times()) > 3


def test_what_does_not_come_is_not_waited_for(harness: Any) -> None:
    """Its leader is silent, and what came before is committed all the same."""
    made = harness([Arrival(1.0, P0, 0), Arrival(9.0, P0, 1)], {P0: 2})
    made.source.knows_more = lambda: made.clock.now - made.began < 9
    made.run()
    assert made.times() == [pytest.approx(1.0, abs=0.15), pytest.approx(9.0, abs=0.15)]


def test_a_full_transaction_does_not_wait(harness: Any, tmp_path: Path) -> None:
    made = harness(
        [Arrival(1 + n * APART, P0, n) for n in range(COUNT)], {P0: COUNT}, pipeline=pipeline_with(tmp_path, 10)
    )
    made.source.knows_more = lambda: made.clock.now - made.began < 1 + COUNT * APART
    made.run()
    assert [sum(chunk.count for chunk in each.chunks) for each in made.sink.transactions if each.chunks] == [10, 10, 10]
