"""The topics asset without clusters and Spark: its requests to the engine, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from k2k_assets.orchestration.assets.data_versions import version_of, version_tags
from k2k_assets.orchestration.assets.shown import ShownTopic
from k2k_assets.orchestration.assets.topics import replicated_topics as topics
from k2k_assets.orchestration.assets.topics import topic_copy
from k2k_assets.orchestration.assets.topics.running_copy import FollowedTopic
from k2k_assets.orchestration.assets.topics.sources import source_assets
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.outcome import Outcome, TopicOutcome
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.dagster.fixture import is_synced


class Source:
    """A source cluster that has these topics."""

    def __init__(self, there: Collection[str]) -> None:
        self._there = there

    def topics(self) -> dict[str, int]:
        """Partition counts."""
        return dict.fromkeys(self._there, 1)


class Resource:
    """A Spark resource that starts nothing."""

    def __init__(self, replicate: Callable[..., Outcome]) -> None:
        self.replicate, self.begun = replicate, False

    @contextmanager
    def copying(self, _: Pipeline) -> Iterator[Resource]:
        """Itself, in place of Spark."""
        self.begun = True
        yield self


def _materialize(
    monkeypatch: pytest.MonkeyPatch,
    pipeline: Pipeline,
    there: Collection[str],
    followed: Collection[str] = (),
    also: Sequence[str] = (),
    instance: dg.DagsterInstance | None = None,
) -> tuple[list[set[str]], dg.ExecuteInProcessResult]:
    """What the engine was asked for, and the result; topics `a`, `b` and `c` are shown.

    Those that are followed are copied by somebody else, without end.
    """
    asked: list[set[str]] = []

    @contextmanager
    def both(_: Pipeline) -> Iterator[tuple[Source, None]]:
        assert spark.begun, "Spark starts while the clusters are asked"
        yield Source(there), None

    def replicate(*_: Any, topics: set[str], **__: Any) -> Outcome:
        asked.append(set(topics))
        return Outcome({topic: TopicOutcome(topic, {}, {}, 1.0) for topic in sorted(topics)})

    for module in (topics, topic_copy):
        monkeypatch.setattr(module, "both_clusters", both)
    by_others = {topic: FollowedTopic("k2k start", {0: 5}, {0: 5}, "an id") for topic in followed}
    monkeypatch.setattr(topics, "copied_by_others", lambda *_: by_others)
    names = AssetNames(pipeline.name)
    assets = topics.topic_assets(pipeline, names, [ShownTopic(topic, topic, 1) for topic in "abc"])
    spark = Resource(replicate)
    resources = {names.resource: dg.ResourceDefinition.hardcoded_resource(spark)}
    config = {"ops": {names.op("topics"): {"config": {"also": list(also)}}}}
    result = dg.materialize([assets], resources=resources, run_config=config, raise_on_error=False, instance=instance)
    return asked, result


def _failure(result: dg.ExecuteInProcessResult) -> str:
    (failed,) = result.filter_events(lambda event: event.is_step_failure)
    told = failed.step_failure_data.user_failure_data
    assert told is not None
    return str(told.description)


def test_what_is_gone_on_the_source_fails_by_name_and_the_others_are_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*")
    asked, result = _materialize(monkeypatch, pipeline, there=["a", "c", "other"])
    assert asked == [{"a", "c"}]
    names = AssetNames(pipeline.name)
    copied = {event.asset_key for event in result.get_asset_materialization_events()}
    assert copied == {names.topic_key("a"), names.topic_key("c")}
    assert (
        "1 of 3 topics were stopped, the others were copied. b: [topic-not-found] it is not on the source"
        in _failure(result)
    )


def test_what_has_no_target_fails_by_name_and_the_others_are_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A topic has appeared that the pattern selects, and the static mapping does not know."""
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*", sink={"staticMapping": {"a": "x", "c": "z"}})
    asked, result = _materialize(monkeypatch, pipeline, there="abc")
    assert asked == [{"a", "c"}]
    assert (
        "1 of 3 topics were stopped, the others were copied. b: [no-target-topic] replication.sink.topic"
        in _failure(result)
    )


@pytest.mark.parametrize(("selection", "there"), [(".*", "xy"), (["a", "b", "c"], "ab")], ids=["all gone", "listed"])
def test_the_engine_refuses_where_nothing_is_left_and_where_topics_are_listed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, selection: str | list[str], there: str
) -> None:
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", selection)
    asked, _ = _materialize(monkeypatch, pipeline, there)
    assert asked == [{"a", "b", "c"}]


def test_what_somebody_copies_is_told_and_only_the_rest_is_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also of a topic that has no asset yet."""
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*")
    asked, result = _materialize(monkeypatch, pipeline, ["a", "b", "c", "new"], followed=["a", "new"], also=["new"])
    assert result.success
    assert asked == [{"b", "c"}]
    names = AssetNames(pipeline.name)
    told = {event.asset_key: event for event in result.get_asset_materialization_events()}
    assert told.keys() == {names.topic_key(topic) for topic in ("a", "b", "c", "new")}
    for topic in ("a", "new"):
        assert told[names.topic_key(topic)].materialization.metadata["k2k/copied_by"].value == "k2k start"


def test_a_click_leaves_a_topic_that_has_no_lag_synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By Dagster's own account it would be made from what its source was observed to hold before."""
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*")
    names = AssetNames(pipeline.name)
    shown = [ShownTopic(topic, topic, 1) for topic in "abc"]
    definitions = dg.Definitions(
        [*source_assets(pipeline, names, shown), topics.topic_assets(pipeline, names, shown)],
        resources={names.resource: dg.ResourceDefinition.none_resource()},
    )
    with dg.DagsterInstance.ephemeral() as instance:
        for topic in "ab":
            before = version_tags(version_of([(0, 3)], "an id"))
            instance.report_runless_asset_event(dg.AssetObservation(names.source_key(topic), tags=before))
        _, result = _materialize(monkeypatch, pipeline, "abc", followed="a", instance=instance)
        assert result.success
        assert is_synced(instance, definitions, names.topic_key("a"))
        after = version_tags(version_of([(0, 9)], "an id"))
        instance.report_runless_asset_event(dg.AssetObservation(names.source_key("a"), tags=after))
        assert not is_synced(instance, definitions, names.topic_key("a")), "more has come"
