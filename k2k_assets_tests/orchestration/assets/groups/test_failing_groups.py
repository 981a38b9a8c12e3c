"""A group that fails for a while is reported once, and once when it succeeds again."""

from __future__ import annotations

from k2k_assets.orchestration.assets.groups.failing_groups import SETTLE_SECONDS, FailingGroups


def test_what_settles_by_itself_is_not_told() -> None:
    failing = FailingGroups()
    assert failing.take({"a": "no coordinator"}, 0.0) == ({}, [])
    assert failing.take({}, 5.0) == ({}, [])
    assert failing.take({"a": "no coordinator"}, SETTLE_SECONDS) == ({}, []), "it begins to fail anew"


def test_each_group_is_told_by_itself() -> None:
    failing = FailingGroups()
    failing.take({"a": "why"}, 0.0)
    failing.take({"a": "why", "b": "why not"}, 10.0)
    assert failing.take({"a": "why", "b": "why not"}, SETTLE_SECONDS) == ({"a": "why"}, [])
    assert failing.take({"a": "other words", "b": "why not"}, 10.0 + SETTLE_SECONDS) == ({"b": "why not"}, [])
    assert failing.take({"b": "why not"}, 100.0) == ({}, ["a"])
    assert failing.take({"b": "why not"}, 101.0) == ({}, [])
