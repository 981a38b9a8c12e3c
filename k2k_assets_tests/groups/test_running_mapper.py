"""Reading groups that another mapper moves; `test_groups_on_clusters.py` of Dagster's assets uses real clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from k2k_assets.control.group_versions import Version
from k2k_assets.control.mapper_claims import MapperHeartbeat
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups import running_mapper
from k2k_assets.groups.decide import GroupDecision
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.cluster import Cluster
from k2k_assets_tests.support.copies.pipelines import make_pipeline

AT = TopicPartition("t", 0)


def _poll(*elsewhere: str) -> PollResult:
    """Groups a and b, of which some do not stand where they belong yet."""
    return PollResult(Version(1, 2), {g: GroupDecision(g, {AT: 5} if g in elsewhere else {}, []) for g in ("a", "b")})


def test_it_waits_for_the_groups_to_be_where_they_belong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polls = iter([_poll("a", "b"), _poll("b"), _poll()])
    monkeypatch.setattr(Poller, "begin_read_only", lambda self: None)
    monkeypatch.setattr(Poller, "poll", lambda self: next(polls))
    found = running_mapper.await_moved(make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", "t"), "Dagster run r1")
    assert (found.failed, found.moved_by) == ({}, "Dagster run r1")
    assert next(polls, None) is None


def test_those_that_are_not_moved_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Poller, "begin_read_only", lambda self: None)
    monkeypatch.setattr(Poller, "poll", lambda self: _poll("b"))
    monkeypatch.setattr(running_mapper, "_SHORTEST_PATIENCE", 0.0)
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", "t", groups={"pollInterval": "1 millisecond"})
    found = running_mapper.await_moved(pipeline, "Dagster run r1")
    assert found.failed.keys() == {"b"}
    assert found.failed["b"].startswith("Dagster run r1 moves the groups, and has not moved this one")


@pytest.mark.parametrize(
    ("seen", "who"),
    [
        ([[]], ""),
        ([[(5, "old")], [(5, "old")], [(5, "old"), (7, "new")]], "k2k-offset-mapping on new, process 1"),
        ([[(5, "old")], [(6, "old")]], "k2k-offset-mapping on old, process 1"),
        ([[(5, "dead")]], ""),
    ],
)
def test_only_who_shows_a_later_sign_is_alive_for_sure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[list[tuple[int, str]]], who: str
) -> None:
    looks: Iterator[list[tuple[int, str]]] = iter(seen)
    last = seen[-1]

    class Claims:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Claims:
            return self

        def __exit__(self, *_: object) -> None: ...

        def heartbeats(self) -> dict[int, MapperHeartbeat]:
            found = next(looks, last)
            return {at: MapperHeartbeat("p", "g", name, host=name, pid=1, time=1) for at, name in found}

    monkeypatch.setattr(running_mapper, "MapperClaims", Claims)
    assignment: dict[str, Any] = {"topic": "claims", "graceWindow": "1 second"}
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", "t", coordination={"assignment": assignment})
    target = cast("Cluster", SimpleNamespace(describe=lambda topics: topics))
    assert running_mapper.running_mapper(pipeline, target) == who
