"""The health of an offset mapper, by its polls and when they came."""

from __future__ import annotations

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.telemetry.endpoint import endpoint
from k2k_assets.telemetry.mapper_health import MapperWatch
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.polls import poll
from k2k_assets_tests.support.services.http_server import json_answer

GOOD = {"a": CommitDecision.EXACT, "b": CommitDecision.AHEAD}


def test_it_is_ready_as_long_as_polls_succeed() -> None:
    clock = FakeClock()
    watch = MapperWatch(5.0, clock)
    assert watch.health().why_not == "it has not read the mappings to their end yet"
    watch.polled(poll(GOOD))
    assert watch.health() == (True, "", {"exact": 1, "ahead": 1}, {})
    watch.troubled(ClusterUnreachable("the source cluster does not answer"))
    clock.advance(60)
    assert watch.health().ready, "brokers restart"
    clock.advance(10)
    assert watch.health().why_not == "no poll has succeeded for 70 s: the source cluster does not answer"
    watch.polled(poll(GOOD))
    assert watch.health().ready


def test_groups_that_need_attention_make_it_unwell_and_others_do_not() -> None:
    watch = MapperWatch(5.0, FakeClock())
    with endpoint("127.0.0.1", 0, watch.health) as address:
        assert json_answer(address, "/live")[0] == 200
        assert json_answer(address, "/ready")[0] == json_answer(address, "/health")[0] == 503
        watch.polled(poll({**GOOD, "c": CommitDecision.ACTIVE, "d": CommitDecision.FOREIGN}))
        assert json_answer(address, "/health")[0] == 200, "these are in use on the target"
        watch.polled(poll({**GOOD, "c": CommitDecision.UNKNOWN}, failed={"d": "no answer"}))
        assert json_answer(address, "/ready")[0] == 200
        status, document = json_answer(address, "/health")
        assert (status, document["attention"]) == (503, {"c": "unknown", "d": "failed"})
        watch.polled(poll({f"{number:03}": CommitDecision.UNKNOWN for number in range(500)}))
        document = json_answer(address, "/health")[1]
        assert (len(document["attention"]), document["groups"]) == (20, {"unknown": 500})
