"""A session whose chunk is with a stage that takes long: an expression is matched, or a registry is asked."""

from __future__ import annotations

import json
from typing import Any

from k2k_assets.replication.extent import Continuous
from k2k_assets.transport.chunk import Chunk
from k2k_assets_tests.replication.slot.session.harness import P0, P1, Harness, arrivals
from k2k_assets_tests.support.memory.fake_transport import Arrival


def test_what_is_in_hand_is_committed_and_heartbeats_go_on(harness: Any) -> None:
    """Without them another instance would take over, work as long on the same records, and lose them again."""

    def slow(chunk: Chunk) -> Chunk:
        if chunk.source == P1:
            for _ in range(240):
                made.clock.sleep(0.25)
                made.session.while_stage_works()
        return chunk

    records = [*arrivals(0, 1, 2), Arrival(0.0, P1, 0)]
    made: Harness = harness(records, {P0: 3, P1: 1}, extent=Continuous(), first_stages=[slow], stop_at=70.0)
    made.run()
    assert made.ended is True
    first = next(t for t in made.copying if t.chunks)
    assert first.at - made.began < 10
    assert {r.source: r.position for r in made.commits(first)} == {P0: 3}
    kinds = [json.loads(c.key)["kind"] for t in made.sink.transactions for c in t.to("claims")]
    assert kinds.count("beat") >= 10
    assert {r.source: r.position for t in made.copying for r in made.commits(t)} == {P0: 3, P1: 1}
