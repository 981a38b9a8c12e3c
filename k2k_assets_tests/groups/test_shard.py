"""In which order a shard commits the groups of a poll."""

from __future__ import annotations

from typing import Any

import pytest

from k2k_assets.groups.decide import GroupDecision
from k2k_assets.groups.shard import Shard

UNUSED: Any = None


def test_who_was_left_for_lack_of_time_comes_first_in_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the same groups would be left each time, where more have moved than a poll has time for."""
    asked: list[str] = []

    def transaction(self: Shard, producer: Any, decisions: list[GroupDecision], *_: Any) -> list[GroupDecision]:
        asked.extend(each.group for each in decisions)
        return []

    monkeypatch.setattr(Shard, "_claimed", lambda self: None)
    monkeypatch.setattr(Shard, "_transaction", transaction)
    shard = Shard(UNUSED, UNUSED, UNUSED, UNUSED, timeout=0.0)
    report = shard.commit([GroupDecision(name, {}, []) for name in ("late", "too late")], "")
    assert (set(report.failed), asked) == ({"late", "too late"}, [])
    shard._timeout = 10.0
    shard.commit([GroupDecision(name, {}, []) for name in ("new", "too late", "late")], "")
    assert asked == ["too late", "late", "new"]
    asked.clear()
    shard.commit([GroupDecision(name, {}, []) for name in ("new", "late")], "")
    assert asked == ["new", "late"], "nobody was left"
