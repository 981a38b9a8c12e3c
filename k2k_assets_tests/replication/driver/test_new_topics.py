"""New topics of the source, some of which cannot be copied; without a broker."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.kafka.cluster import TopicDescription
from k2k_assets.replication.driver import new_topics as module
from k2k_assets.replication.driver.new_topics import NewTopics
from k2k_assets.replication.driver.planning import ClusterSnapshot
from k2k_assets.replication.plan import ControlPartitions
from k2k_assets.topics.selection import SelectedTopics
from k2k_assets_tests.support.copies.pipelines import make_pipeline

KNOWN = ClusterSnapshot("c", {}, {}, {}, ControlPartitions(1, 6, "commits"), 1_000_000, True)


class Harness:
    """A source with new topics, of which some are refused, and a clock that each preparation moves on."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, topics: Collection[str]) -> None:
        self.now = 0.0
        self.refused: set[str] = set()
        self.unreachable: set[str] = set()
        self.tried: list[tuple[str, ...]] = []
        monkeypatch.setattr(module, "prepare", self._prepare)
        self.doubts: tuple[str, ...] = ()
        selected = dict.fromkeys(topics, 1)
        monkeypatch.setattr(module, "select_topics", lambda *_, **__: SelectedTopics(selected, self.doubts))
        monkeypatch.setattr("k2k_assets.core.deadline.time", SimpleNamespace(monotonic=lambda: self.now))
        cluster: Any = SimpleNamespace(renew_if_disturbed=lambda: None)
        pipeline = make_pipeline(directory, "a:1", "b:1", "new-.*")
        self._new_topics = NewTopics(pipeline, cluster, cluster, None, lambda: self.now)

    def look(self) -> set[str] | None:
        """The topics that are copied from now on."""
        self.now += 3600
        found = self._new_topics.refresh(KNOWN)
        return set(found.topics) if found else None

    def _prepare(self, _pipeline: Any, _source: Any, _target: Any, only: Collection[str]) -> ClusterSnapshot:
        self.now += 1
        self.tried.append(tuple(only))
        if self.unreachable.intersection(only):
            raise ClusterUnreachable("nobody answers")
        if self.refused.intersection(only):
            raise Refused(f"{', '.join(only)} cannot be copied")
        described = {name: TopicDescription(name, f"id of {name}", 1) for name in only}
        return replace(KNOWN, topics={name: (name, 1) for name in only}, descriptions=described)


def test_one_that_is_refused_holds_up_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(tmp_path, monkeypatch, ["new-a", "new-b", "new-c"])
    harness.refused = {"new-b"}
    assert harness.look() == {"new-a", "new-c"}
    assert harness.tried == [("new-a", "new-b", "new-c"), ("new-a",), ("new-b",), ("new-c",)]
    assert "cannot be copied yet: new-b cannot be copied" in caplog.text


def test_a_look_is_short_and_the_next_one_goes_on_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"new-{n:02}" for n in range(12)]
    harness = Harness(tmp_path, monkeypatch, names)
    harness.refused = set(names)
    for _ in range(3):
        began = harness.now + 3600
        assert harness.look() is None
        assert harness.now - began <= 7
    assert {name for tried in harness.tried if len(tried) == 1 for name in tried} == set(names)


def test_what_was_begun_stays_when_a_cluster_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(tmp_path, monkeypatch, ["new-a", "new-b", "new-c"])
    harness.refused, harness.unreachable = {"new-a", "new-b", "new-c"}, set()

    def prepare(*args: Any) -> ClusterSnapshot:
        harness.refused, harness.unreachable = set(), {"new-b"}  # when the driver checks them one by one
        raise Refused("together they cannot be copied")

    one_by_one = harness._prepare
    monkeypatch.setattr(module, "prepare", lambda *args: (prepare if len(args[3]) > 1 else one_by_one)(*args))
    assert harness.look() == {"new-a"}


def test_a_topic_that_is_left_out_is_told_once_and_holds_up_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(tmp_path, monkeypatch, ["new-a"])
    harness.doubts = ("new-b is selected twice",)
    assert [harness.look(), harness.look()] == [{"new-a"}, {"new-a"}]
    assert caplog.text.count("new-b is selected twice") == 1
    harness.doubts = ()
    harness.look()
    harness.doubts = ("new-b is selected twice",)
    harness.look()
    assert caplog.text.count("new-b is selected twice") == 2
