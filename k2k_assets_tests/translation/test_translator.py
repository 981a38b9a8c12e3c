"""What is read in which order before positions are translated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.live.live import Cut
from k2k_assets.translation import translator
from k2k_assets.translation.routes import Routes, Standing
from k2k_assets.translation.translator import OffsetTranslator
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import commit_record


class _Mappings:
    """Of a copy exactly once, which is started anew at least once before the cut that answers are given at."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.at_least_once = False

    def __enter__(self) -> _Mappings:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def catch_up(self, topics: set[str] | tuple[str, ...]) -> Cut:
        self.at_least_once = bool(topics)
        return Cut({}, {}, {})

    def copied(self) -> dict[SourcePartition, CommitRecord]:
        record = commit_record(TopicPartition("s", 0), 5, at_least_once=self.at_least_once)
        return {SourcePartition("c", "s", "sid", 0): record}


def test_the_delivery_mode_is_the_one_at_the_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent below the cut since, and is not mapped yet, would count as markers."""
    cluster = SimpleNamespace(topics=list, cluster_id=lambda: "c")

    @contextmanager
    def both(*_: object) -> Iterator[tuple[object, object]]:
        yield cluster, cluster

    known = Routes("c", {"s": "t"}, frozenset(), Standing({"s": "s-s"}, {}), Standing({}, {}))
    monkeypatch.setattr(translator, "both_clusters", both)
    monkeypatch.setattr(translator, "LiveMappings", _Mappings)
    monkeypatch.setattr(translator, "routes", lambda *_: known)
    with OffsetTranslator.open(make_pipeline(tmp_path, "a:1", "b:1", ["s"]), of_records=True) as opened:
        assert opened.routes.is_at_least_once(TopicPartition("s", 0))
