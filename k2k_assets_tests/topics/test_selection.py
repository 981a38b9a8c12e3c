"""Which topics a selection means, on a fake cluster."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import cast

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster, SeenConfigs
from k2k_assets.pipeline import Pipeline
from k2k_assets.topics.selection import ensure_selected, resolve_topics, select_topics, selected_on
from k2k_assets_tests.support.copies.pipelines import make_pipeline

INTERNAL = {
    "__internal": 1,
    "_schemas": 1,
    "mm2-offsets.a.internal": 1,
    "mm2-configs.b": 1,
    "mm2-offset-syncs.b.internal": 1,
    "a.checkpoints.internal": 1,
    "connect-internal": 1,
    "heartbeats": 1,
    "a.heartbeats": 1,
}
CONTROL = {"__k2k_assignment": 1, "__k2k_metrics": 1, "our-commits": 1, "our-metrics": 1}
EXISTING = {"orders": 3, "payments": 2, "eu.orders": 1}


class PlayedCluster:
    """Answers all that the selection asks: which topics there are, and their configs, of which none is set."""

    def __init__(self, topics: dict[str, int]) -> None:
        self._topics = topics

    def topics(self) -> dict[str, int]:
        return self._topics

    def seen_configs(self, names: Collection[str]) -> SeenConfigs:
        return SeenConfigs({name: {} for name in names}, set())

    def __str__(self) -> str:
        return "source cluster (played:9092)"


@pytest.fixture(autouse=True)
def _nothing_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """On real clusters: `k2k_assets_tests/permissions/`."""
    monkeypatch.setattr("k2k_assets.topics.selection.hidden_topics", lambda *_: [])


def resolve(
    tmp_path: Path, selection: str | list[str], existing: dict[str, int] | None = None, **source: object
) -> dict[str, int]:
    stages = [{"source": {"topic": selection, **source}}, {"sink": {"topic": "source", "partition": "source"}}]
    sections = {"coordination": {"commit": {"topic": "our-commits"}}, "metrics": {"kafka": {"topic": "our-metrics"}}}
    pipeline = make_pipeline(tmp_path, "source:9092", "target:9092", ".*", replication=stages, **sections)
    return resolve_topics(pipeline, cast(Cluster, PlayedCluster(existing or EXISTING | INTERNAL | CONTROL)))


def test_a_listed_topic_that_the_first_node_does_not_know_yet_is_found_by_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [{"payments": 2}, EXISTING]
    monkeypatch.setattr(PlayedCluster, "topics", lambda _: answers.pop(0))
    assert resolve(tmp_path, ["orders"]) == {"orders": 3}
    assert not answers


def test_pattern_selects_whole_names_sorted_with_partition_counts(tmp_path: Path) -> None:
    assert resolve(tmp_path, "orders|payments") == {"orders": 3, "payments": 2}
    assert list(resolve(tmp_path, ".*orders")) == ["eu.orders", "orders"]


def test_pattern_never_selects_control_topics_nor_bookkeeping(tmp_path: Path) -> None:
    assert set(resolve(tmp_path, ".*")) == set(EXISTING)


def test_bookkeeping_is_selected_where_it_is_asked_for_but_never_our_own(tmp_path: Path) -> None:
    assert set(resolve(tmp_path, ".*", internalTopics="enabled")) == {*EXISTING, *INTERNAL}
    assert resolve(tmp_path, ["_schemas", "a.heartbeats"]) == {"_schemas": 1, "a.heartbeats": 1}


def test_what_only_looks_like_bookkeeping_is_data(tmp_path: Path) -> None:
    data = {"_schemas2": 1, "internal": 1, "internals": 1, "heartbeats2": 1, "myheartbeats": 1, "mm2": 1, "_orders": 1}
    assert resolve(tmp_path, ".*", data) == data


@pytest.mark.parametrize(
    ("exclude", "selected"),
    [
        (["payments"], {"orders", "eu.orders"}),
        (".*orders", {"payments"}),
        ("orders", {"payments", "eu.orders"}),
        (["unknown"], {"orders", "payments", "eu.orders"}),
    ],
)
def test_excluded_topics_are_not_selected(tmp_path: Path, exclude: object, selected: set[str]) -> None:
    assert set(resolve(tmp_path, ".*", exclude=exclude)) == selected


def test_a_pattern_that_matches_bookkeeping_alone_says_so(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"leaves internal topics out \(__internal, _schemas\): list them"):
        resolve(tmp_path, "_.*")


def test_pattern_without_a_match_is_refused_with_the_number_looked_at(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"played:9092.*matches the pattern 'order': 12 topics looked at"):
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


def several(tmp_path: Path, *selections: str | list[str]) -> Pipeline:
    """A pipeline with a pair of stages for each selection."""
    sink = {"sink": {"topic": "source", "partition": "source"}}
    stages = [stage for selection in selections for stage in ({"source": {"topic": selection}}, sink)]
    return make_pipeline(tmp_path, "source:9092", "target:9092", ".*", replication=stages)


def played(*topics: str) -> Cluster:
    return cast(Cluster, PlayedCluster(dict.fromkeys(topics, 1)))


@pytest.mark.parametrize("partly", [True, False])
def test_a_pattern_without_a_match_does_not_hold_up_other_pairs(
    tmp_path: Path, partly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, source = several(tmp_path, r"orders\..*", "payments"), played("payments")
    assert resolve_topics(pipeline, source, partly=partly) == {"payments": 1}
    said = [line for line in caplog.messages if r"matches the pattern 'orders\..*': 1 topic looked at" in line]
    assert len(said) == (0 if partly else 1), "whoever asks for some topics is not told of others"


@pytest.mark.parametrize("partly", [True, False])
def test_a_topic_that_two_pairs_select_is_left_out_with_a_warning(
    tmp_path: Path, partly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = several(tmp_path, r"orders\..*", r".*payments.*", ["refunds"])
    source = played("orders.a", "orders.payments", "payments", "refunds")
    assert list(resolve_topics(pipeline, source, partly=partly)) == ["orders.a", "payments", "refunds"]
    assert caplog.messages == [
        r"the topic 'orders.payments' is selected twice, by replication[0] ('orders\..*') and replication[2] "
        "('.*payments.*'), and is not copied: leave it out of one of them ('replication[].source.exclude')"
    ]
    # It is shown, and has no target.
    assert "orders.payments" in selected_on(pipeline, source, source.topics())
    assert pipeline.routing.target_if_any("orders.payments") is None
    with pytest.raises(Refused, match=r"^the topic 'orders.payments' is selected twice"):
        ensure_selected(pipeline, source, ["orders.a", "orders.payments"], ["orders.a"])


def test_a_start_is_refused_only_if_no_pair_has_a_topic(tmp_path: Path) -> None:
    pipeline, source = several(tmp_path, "a.*", ".*b", "c"), played("ab")
    with pytest.raises(Refused, match=r"the pattern 'c': .*; the topic 'ab' is selected twice"):
        resolve_topics(pipeline, source)
    assert select_topics(pipeline, source, partly=True).topics == {}


def test_a_listed_topic_that_does_not_exist_is_refused_beside_other_pairs(tmp_path: Path) -> None:
    pipeline, source = several(tmp_path, "a.*", ["b"]), played("a1")
    with pytest.raises(Refused, match="'b' does not exist"):
        resolve_topics(pipeline, source)
    assert resolve_topics(pipeline, source, partly=True) == {"a1": 1}
