"""Which topics a selection means, against a cluster that is played."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.topics.selection import resolve_topics
from k2k_assets_tests.support.pipelines import make_pipeline

EXISTING = {"orders": 3, "payments": 2, "eu.orders": 1, "__k2k_assignment": 1, "__k2k_metrics": 1}


class PlayedCluster:
    """Answers `topics()`, which is all that the selection asks."""

    def topics(self) -> dict[str, int]:
        return dict(EXISTING)

    def __str__(self) -> str:
        return "source cluster (played:9092)"


@pytest.fixture(autouse=True)
def _nothing_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """On real clusters: `k2k_assets_tests/permissions/`."""
    monkeypatch.setattr("k2k_assets.topics.selection.hidden_topics", lambda *_: [])


def resolve(tmp_path: Path, selection: str | list[str]) -> dict[str, int]:
    pipeline = make_pipeline(tmp_path, "source:9092", "target:9092", selection)
    return resolve_topics(pipeline, cast(Cluster, PlayedCluster()))


def test_pattern_selects_whole_names_sorted_with_partition_counts(tmp_path: Path) -> None:
    assert resolve(tmp_path, "orders|payments") == {"orders": 3, "payments": 2}
    assert list(resolve(tmp_path, ".*orders")) == ["eu.orders", "orders"]


def test_pattern_never_selects_control_topics(tmp_path: Path) -> None:
    assert set(resolve(tmp_path, ".*")) == {"orders", "payments", "eu.orders"}


def test_pattern_without_a_match_is_refused_with_the_number_looked_at(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"played:9092.*matches the pattern 'order': 3 topics looked at"):
        resolve(tmp_path, "order")


def test_list_is_taken_literally(tmp_path: Path) -> None:
    assert resolve(tmp_path, ["payments", "eu.orders"]) == {"eu.orders": 1, "payments": 2}


def test_unknown_topics_of_a_list_are_all_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refusal:
        resolve(tmp_path, ["orders", "paymnets", "zzz"])
    message = str(refusal.value)
    assert "'paymnets' does not exist (did you mean 'payments'?)" in message
    assert "'zzz' does not exist." in message


def test_kafkas_own_topic_in_a_list_is_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="'__consumer_offsets' is Kafka's own"):
        resolve(tmp_path, ["__consumer_offsets"])
