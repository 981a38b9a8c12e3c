"""New topics that the pattern matches, and new partitions, while a copy runs."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Refused
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver import planning
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topics.dead_letters import ensure_dead_letter_topics
from k2k_assets_tests.support.brokers.kafka import (
    add_partitions,
    create_topic,
    delete_topic,
    end_offsets,
    produce,
    unique,
)
from k2k_assets_tests.support.copies.copying import Running, assert_exact_mappings, commit_records, copy
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.proof.verifying import verify
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration

BOTH_MODES = pytest.mark.parametrize("pipeline", ["enabled", *in_storms(("disabled",))], indirect=True)


@pytest.fixture
def pipeline(request: pytest.FixtureRequest, clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    """Exactly once, unless a test says otherwise."""
    prefix = unique("growing")
    return make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        f"{prefix}-.*",
        consumer={"group.id": prefix, "auto.offset.reset": "latest"},
        features={
            "exactlyOnce": getattr(request, "param", "enabled"),
            "offsetMapping": "enabled",
            "headerReplication": "enabled",
        },
        sync={"metadataInterval": "1 second"},
    )


def named(pipeline: Pipeline, name: str) -> str:
    return f"{pipeline.group}-{name}"


def begun(pipeline: Pipeline, servers: str) -> int:
    """How many partitions have a start position, from which `latest` cannot move them any more."""
    return len({r.source for r in commit_records(pipeline, servers)})


@pytest.mark.slow
@BOTH_MODES
def test_new_topics_and_partitions_are_copied_from_their_beginning_and_the_target_grows(
    clusters: KafkaSandbox, pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    first, second = named(pipeline, "a"), named(pipeline, "b")
    writer, rng = NumberedWriter(source, [], 0), random.Random(0)
    create_topic(source, first, 2)
    with caplog.at_level(logging.INFO, "k2k"):
        running = Running(pipeline, 2)
        wait_until(lambda: begun(pipeline, target) == 2, 120, "the start positions")
        produce(source, first, writer.records(20, rng), 1)
        wait_until(lambda: running.copied() == 20, 120, "the first records")
        add_partitions(source, first, 3)
        produce(source, first, writer.records(20, rng), 2)
        create_topic(source, second, 1)
        produce(source, second, writer.records(20, rng), 0)
        wait_until(lambda: running.copied() == 60, 120, "what is new")
        produce(source, first, writer.records(20, rng), 0)
        wait_until(lambda: running.copied() == 80, 120, "what was there before to go on")
        running.end()
    verdict = verify(pipeline, source, target, [first, second])
    assert (verdict.records, verdict.problems) == (80, [])
    for topic in (first, second):
        assert_exact_mappings(pipeline, source, target, topic)
    assert len(end_offsets(target, first)) == 3
    assert f"new on the source: {first} (2 to 3 partitions)" in caplog.text
    assert f"topic '{first}' on the target cluster ({target}) has 3 partitions now, like its source" in caplog.text


def test_what_is_new_and_cannot_be_copied_disturbs_nothing_and_is_said_once(
    clusters: KafkaSandbox, pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    source = clusters.source_servers
    features = pipeline.features.model_copy(update={"auto_create_topics": False})
    fixed = pipeline.model_copy(update={"features": features})
    first, second = named(fixed, "a"), named(fixed, "b")
    create_topic(source, first)
    create_topic(clusters.target_servers, first)
    running = Running(fixed, 1)
    wait_until(lambda: begun(fixed, clusters.target_servers) == 1, 120, "the start position")
    create_topic(source, second)
    words = "what is new on the source cannot be copied yet: topics are missing on the target"
    wait_until(lambda: words in caplog.text, 120, "the reason")
    produce(source, first, [b"on"] * 20)
    wait_until(lambda: running.copied() == 20, 120, "the first topic to go on")
    third = create_topic(clusters.target_servers, named(fixed, "c"))
    produce(source, create_topic(source, third), [b"new"] * 20)
    wait_until(lambda: running.copied() == 40, 120, "the topic that can be copied")
    running.end()
    assert caplog.text.count(words) == 1
    assert second in caplog.text


@BOTH_MODES
def test_a_listed_topic_that_is_gone_holds_up_nothing_that_is_new(
    clusters: KafkaSandbox, pipeline: Pipeline, tmp_path: Path
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    kept, gone = (create_topic(source, named(pipeline, name)) for name in ("kept", "gone"))
    mode = {"exactlyOnce": "enabled" if pipeline.features.exactly_once else "disabled"}
    sync = {"metadataInterval": "1 second"}
    listed = make_pipeline(tmp_path, source, target, [kept, gone], features=mode, sync=sync)
    running = Running(listed, 1)
    produce(source, kept, [b"first"] * 5)
    wait_until(lambda: running.copied() == 5, 120, "the first records")
    delete_topic(source, gone)
    add_partitions(source, kept, 2)
    produce(source, kept, [b"second"] * 5, 1)
    wait_until(lambda: running.copied() == 10, 120, "the new partition")
    running.end()
    assert running.outcome is not None
    assert running.outcome.stopped.keys() == {gone}


@BOTH_MODES
@pytest.mark.parametrize("role", ["source", "target"])
def test_a_topic_that_is_deleted_while_a_run_is_prepared(
    clusters: KafkaSandbox, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    """A topic that comes and goes is left out; one that the run needs is told in words."""
    source = clusters.source_servers
    kept, brief = (create_topic(source, named(pipeline, name)) for name in ("kept", "brief"))

    def meanwhile(*clusters_too: Any) -> None:
        ensure_dead_letter_topics(*clusters_too)
        delete_topic(source if role == "source" else clusters.target_servers, brief)

    monkeypatch.setattr(planning, "ensure_dead_letter_topics", meanwhile)
    if role == "source":
        assert copy(pipeline).topics.keys() == {kept}
    else:
        with pytest.raises(Refused, match=f"topics of the target cluster .* were deleted .*: {brief}"):
            copy(pipeline)


def test_a_source_topic_that_is_deleted_before_its_copy_is_created_is_told_in_words(
    clusters: KafkaSandbox, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = create_topic(clusters.source_servers, named(pipeline, "brief"))

    def meanwhile(*clusters_too: Any) -> None:
        ensure_control_topics(*clusters_too)
        delete_topic(clusters.source_servers, brief)

    monkeypatch.setattr(planning, "ensure_control_topics", meanwhile)
    with pytest.raises(Refused, match=f"topics of the source cluster .* were deleted .*: {brief}. Start again"):
        copy(pipeline)
