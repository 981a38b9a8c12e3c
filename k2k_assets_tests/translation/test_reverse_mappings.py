"""How the pipeline back copies, as its control records on the source tell."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import BothWays
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups import failback_view
from k2k_assets.groups.failback_view import _pipe_back
from k2k_assets.kafka.groups import Ends
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.translation import reverse_mappings
from k2k_assets.translation.groups import CopiedAtCut
from k2k_assets.translation.reverse_mappings import ReverseMappings
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import commit_record

AT = TopicPartition("t", 0)
THERE = SourcePartition("b", "t", "tid", 0)
BEGUN_ANEW = pytest.mark.parametrize("noted", [False, True], ids=["exactly once", "at least once since"])


def _copied(noted: bool) -> CommitRecord:
    return commit_record(AT, 5, at_least_once=noted)


class _Logs:
    """All logs are those that were copied."""

    def __init__(self, *_: object) -> None:
        pass

    def ends(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(offsets={AT: 9})


@BEGUN_ANEW
def test_a_pipeline_back_that_copies_at_least_once_now_counts_as_such_before_it_maps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: bool
) -> None:
    live = SimpleNamespace(
        catch_up=lambda *_: None,
        sources=lambda: [THERE],
        copied=lambda: {THERE: _copied(noted)},
        ways_of=lambda _: frozenset({BothWays("cluster", shared=True, exactly_once=True)}),
        close=lambda: None,
    )
    monkeypatch.setattr(reverse_mappings, "LiveMappings", lambda *_: live)
    monkeypatch.setattr(reverse_mappings, "SourceLogs", _Logs)
    topics = {"t": SimpleNamespace(topic_id="tid")}
    cluster: Any = SimpleNamespace(cluster_id=lambda: "b", seen_async=lambda _: lambda: SimpleNamespace(topics=topics))
    pipeline = make_pipeline(
        tmp_path, "a:1", "b:1", ["t"],
        features={"bidirectionalReplication": "enabled", "offsetMapping": "enabled"},
        bidirectional={"mode": "cluster"},
    )  # fmt: skip
    mappings = ReverseMappings(pipeline, cluster, cluster, lambda _: None)
    mappings.catch_up()
    assert mappings.is_exactly_once(Target("t", "tid", 0)) is not noted


@BEGUN_ANEW
def test_on_the_way_back_without_its_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: bool) -> None:
    mappings: Any = SimpleNamespace(
        cut=lambda: CopiedAtCut({AT: 5}, {AT: Ends(0, 9)}, {"t": "sid"}),
        map_of=None,
        routing=None,
        mapped={AT: THERE},
        committed=lambda: {AT: _copied(noted)},
        ways_of=lambda _: frozenset({BothWays("cluster", shared=True, exactly_once=True)}),
        with_copies_at_least_once=set,
    )
    monkeypatch.setattr(failback_view, "SourceLogs", _Logs)
    target: Any = SimpleNamespace(led_offsets=lambda *_: SimpleNamespace(offsets={AT: 7}))
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"])
    assert _pipe_back(mappings, None, pipeline, target).copied.source_ends == ({AT: 7} if noted else {})
