"""The check on settings of topics, on real clusters: what differs is a doubt, whatever the number of topics."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from k2k_assets.core.errors import NotAllowed
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.orchestration.checks.topic_checks import settings_check_keys, topic_checks
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topics.create import WantedTopic
from k2k_assets.topics.plan import TopicsPlan
from k2k_assets.topics.wanted import TargetTopic
from k2k_assets.verification import topic_settings
from k2k_assets.verification.topic_settings import check_topic_settings
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, set_config, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration


@pytest.fixture
def both(clusters: KafkaSandbox) -> Iterator[tuple[Cluster, Cluster]]:
    with (
        Cluster("source", {"bootstrap.servers": clusters.source_servers}) as source,
        Cluster("target", {"bootstrap.servers": clusters.target_servers}) as target,
    ):
        yield source, target


def pipeline_of(directory: Path, clusters: KafkaSandbox, topics: list[str], **rest: Any) -> Pipeline:
    return make_pipeline(
        directory, clusters.source_servers, clusters.target_servers, topics, sink={"prefix": "copy."}, **rest
    )


def test_differences_are_told_of_each_topic_with_a_few_calls_for_all(
    clusters: KafkaSandbox, both: tuple[Cluster, Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = both
    fine, drifted, missing, gone = topics = [unique(name) for name in ("fine", "drifted", "missing", "gone")]
    for name in topics:
        create_topic(source.servers, name, 2, {"retention.ms": "7000000"})
        if name != missing:
            create_topic(target.servers, f"copy.{name}", 2 if name == fine else 1, {"retention.ms": "7000000"})
    set_config(target.servers, f"copy.{drifted}", "retention.ms", "8000000")
    delete_topic(source.servers, gone)
    calls: list[str] = []
    for cluster in both:
        for call in ("describe_configs", "describe_topics"):
            real = getattr(cluster.admin, call)

            def counted(*arguments: Any, real: Any = real, **named: Any) -> Any:
                calls.append(real.__name__)
                return real(*arguments, **named)

            monkeypatch.setattr(cluster.admin, call, counted)

    found = check_topic_settings(pipeline_of(tmp_path, clusters, topics), source, target, topics)

    assert sorted(calls) == ["describe_configs"] * 2 + ["describe_topics"] * 2
    assert found[fine].judgement is Judgement.PASSED
    assert found[drifted].judgement is Judgement.WARNED
    assert [offender.what for offender in found[drifted].offenders] == [
        f"copy.{drifted}: retention.ms is 8000000, and has to be 7000000",
        f"copy.{drifted}: partitions is 1, and has to be 2",
    ]
    assert found[drifted].summary.startswith("2 differences: ")
    assert (found[missing].judgement, found[missing].summary[:13]) == (Judgement.WARNED, "1 difference:")
    assert found[gone].summary == f"the source has no topic {gone} any more"


def test_what_may_not_be_compared_is_a_doubt(
    clusters: KafkaSandbox, both: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    coordination = {"commit": {"topic": f"copy.{topic}"}}
    pipeline = pipeline_of(tmp_path, clusters, [topic], coordination=coordination)
    verdict = check_topic_settings(pipeline, *both, [topic])[topic]
    assert verdict.judgement is Judgement.WARNED
    assert "cannot be compared" in verdict.summary
    assert "which holds bookkeeping" in verdict.summary


@pytest.mark.parametrize("denied", [{"topic-7"}, {"topic-0", "topic-99"}, {f"topic-{n}" for n in range(100)}])
def test_topics_that_may_not_be_seen_keep_the_others_from_nothing(
    clusters: KafkaSandbox,
    both: tuple[Cluster, Cluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    denied: set[str],
) -> None:
    topics, plans = [f"topic-{n}" for n in range(100)], count(1)

    def plan(*_: object, topics: Collection[str]) -> TopicsPlan:
        assert next(plans) <= 32, "few calls, whatever is denied"
        if hidden := denied & set(topics):
            raise NotAllowed(f"the source refuses the settings of {min(hidden)}")
        return TopicsPlan({f"copy.{topic}": TargetTopic(WantedTopic(f"copy.{topic}", 1)) for topic in topics})

    monkeypatch.setattr(topic_settings, "plan_topics", plan)
    found = check_topic_settings(pipeline_of(tmp_path, clusters, topics), *both, topics)
    warned = {topic for topic, verdict in found.items() if verdict.judgement is Judgement.WARNED}
    assert found.keys() == set(topics)
    assert warned == denied


def test_dagster_shows_a_warning_on_the_topic_and_blocks_nothing(clusters: KafkaSandbox, tmp_path: Path) -> None:
    names = sorted([unique("topic"), unique("topic")])
    for name in names:
        create_topic(clusters.source_servers, name)
        produce(clusters.source_servers, name, [b"x"])
    pipeline = pipeline_of(tmp_path, clusters, names)
    copy(pipeline)
    set_config(clusters.target_servers, f"copy.{names[0]}", "retention.ms", "8000000")
    (checks,) = topic_checks(pipeline, AssetNames(pipeline.name), names)
    job = dg.define_asset_job("checks", dg.AssetSelection.checks(checks))
    resolved = dg.Definitions(asset_checks=[checks], jobs=[job]).resolve_job_def("checks")
    with dg.DagsterInstance.ephemeral() as instance:
        done = resolved.execute_in_process(instance=instance)
    keys = settings_check_keys(AssetNames(pipeline.name), names)
    told = {(e.asset_key, e.check_name): e for e in done.get_asset_check_evaluations()}
    drifted, fine = (told[keys[name].asset_key, keys[name].name] for name in names)
    assert (drifted.passed, drifted.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "retention.ms is 8000000, and has to be the broker's default" in (drifted.description or "")
    assert fine.passed
    assert {e.check_name for e in told.values()} == {"copies_on", "as_configured"}
