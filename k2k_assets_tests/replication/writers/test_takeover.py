"""G6: one writer per partition; a superseded instance can commit nothing, and stands by."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Refused, Superseded
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver import generations, job_watch
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.session import Session
from k2k_assets.replication.slot.start.slot_claims import SlotClaims
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Restart
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, produce, unique
from k2k_assets_tests.support.copies.copying import (
    Running,
    assert_same_content,
    copy,
    in_processes,
    in_threads,
)
from k2k_assets_tests.support.copies.takeovers import (
    Flow,
    assert_all_copied,
    assert_exact,
    assignments,
    await_written,
    copied_to,
    owners,
    pipeline_of,
    silences_before_claims,
    topic_of,
)
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = pytest.mark.integration


GRACE_SECONDS = 15


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    topic = create_topic(clusters.source_servers, unique("taken"), 4)
    return pipeline_of(clusters, tmp_path, [topic])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first_slots", "second_slots", "mode"), [(2, 2, "enabled"), (3, 1, "enabled"), (1, 3, "disabled")]
)
def test_the_newer_instance_takes_over_and_the_older_stands_by_until_it_leaves(
    clusters: KafkaSandbox, tmp_path: Path, first_slots: int, second_slots: int, mode: str
) -> None:
    """Both hand-overs are by releases: the grace window is ten minutes."""
    topic = create_topic(clusters.source_servers, unique("taken"), 4)
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode)
    flow = Flow(clusters, topic)
    flow.write()
    first = Running(pipeline, first_slots)
    wait_until(lambda: first.copied() == flow.written, 120, "the first instance to copy")
    second = Running(pipeline, second_slots)
    wait_until(lambda: owners(clusters, pipeline) == {2}, 120, "the second instance to hold all partitions")
    flow.write()
    wait_until(lambda: copied_to(pipeline, clusters) == flow.written, 120, "the second instance to copy")
    assert first.error is None
    assert owners(clusters, pipeline) == {2}, "the first one stands by"

    second.end()
    flow.write()
    wait_until(lambda: copied_to(pipeline, clusters) == flow.written, 120, "the first instance to take over again")
    first.end()
    assert owners(clusters, pipeline) == set()
    assert_all_copied(clusters, pipeline, overtaken=True)


@pytest.mark.slow
@MODES
def test_a_silent_owner_is_taken_over_from_after_the_grace_window(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    """The newer instance dies without a word, all its slots at once; the stand-by notices by itself, and not before."""
    topic = create_topic(clusters.source_servers, unique("silent"), 4)
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode, grace=GRACE_SECONDS)
    flow = Flow(clusters, topic)
    flow.write()
    first = Running(pipeline, 1)
    wait_until(lambda: first.copied() == flow.written, 120, "the first instance to copy")
    workers, kill = in_processes()
    second = Running(pipeline, 2, workers)
    wait_until(lambda: owners(clusters, pipeline) == {2}, 120, "the second instance to hold all partitions")
    flow.write()
    wait_until(lambda: second.copied() == 200, 120, "the second instance to copy")
    second.abandon()
    kill()
    flow.write()
    await_written(clusters, pipeline, flow)
    first.end()
    assert_all_copied(clusters, pipeline, overtaken=True)
    silences = silences_before_claims(clusters, pipeline)
    assert len(silences) == 4
    assert min(silences.values()) >= GRACE_SECONDS


def test_a_bounded_run_that_is_taken_over_from_says_so(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    """It wrote its record, was overtaken, and only then begins: it claims nothing."""
    flow = Flow(clusters, topic_of(pipeline))
    flow.write(20)
    released = threading.Event()
    overtaken: list[Exception] = []

    def slow(plans: Sequence[SlotPlan]) -> list[SlotResult]:
        released.wait(240)
        return in_threads(plans)

    def run_slow() -> None:
        try:
            copy(pipeline, runner=slow)
        except Exception as error:
            overtaken.append(error)

    thread = threading.Thread(target=run_slow, daemon=True)
    with Cluster("target", pipeline.client_properties("target", "admin")) as target:
        thread.start()
        wait_until(lambda: _newest(pipeline, target) >= 0, 120, "the slow instance's record")
        newer = Running(pipeline, 2)
        wait_until(lambda: newer.copied() == flow.written, 120, "the newer instance to copy")
        released.set()
        thread.join(60)
        flow.write(20)
        wait_until(lambda: newer.copied() == flow.written, 120, "the newer instance to copy on")
        newer.end()
    assert isinstance(overtaken[0], Superseded)
    assert "a newer instance has taken over" in str(overtaken[0])
    assert "process" in str(overtaken[0])
    assert_exact(clusters, pipeline)


@pytest.mark.slow
def test_an_instance_that_was_superseded_by_one_that_is_gone_begins_anew(
    clusters: KafkaSandbox, pipeline: Pipeline
) -> None:
    """Its generation is older than the newest commit records: what it commits under it would count for nothing.

    Its driver sees nothing, its slot finds the commit records of the other one, and releases what it has claimed:
    the next generation claims under other ids, and would wait for it.
    """
    flow = Flow(clusters, topic_of(pipeline))
    flow.write(20)
    go = threading.Event()
    begun = threading.Event()
    first_job = ExitStack()
    first_job.enter_context(patch.object(job_watch, "_POLL_SECONDS", 60))

    def slow(plans: Sequence[SlotPlan]) -> list[SlotResult]:
        begun.set()
        go.wait(240)
        with first_job:
            return in_threads(plans)

    first = Running(pipeline, 1, slow)
    assert begun.wait(120)
    copy(pipeline)
    flow.write(20)
    go.set()
    wait_until(lambda: first.copied() == 80, 120, "the first instance to copy")
    first.end()
    assert first.error is None
    assert_exact(clusters, pipeline)


def until_told_to_stop(holding: SlotClaims, keep_waiting: Callable[[], None]) -> None:
    """Stands in for waiting for the claims of others, as long as it takes."""
    while True:
        holding._tail.refresh(0.1)
        keep_waiting()


def test_a_slot_that_is_told_to_stop_before_it_has_begun_releases_what_it_has_claimed(
    clusters: KafkaSandbox, pipeline: Pipeline
) -> None:
    flow = Flow(clusters, topic_of(pipeline))
    flow.write(20)
    with patch.object(SlotClaims, "settle", until_told_to_stop):
        first = Running(pipeline, 1)
        wait_until(lambda: assignments(clusters, pipeline).claims, 120, "claims")
        first.end()
    assert assignments(clusters, pipeline).claims == {}
    copy(pipeline)
    assert_exact(clusters, pipeline)


def test_a_slot_whose_session_breaks_as_it_is_taken_over_from_releases_all_the_same(
    clusters: KafkaSandbox, pipeline: Pipeline
) -> None:
    """Its next session finds all taken, and nothing to copy: what the last one claimed is released, not left."""

    def broken(*_: object) -> None:
        raise Restart("the connection broke")

    another_pipeline_takes_over(clusters, pipeline, meanwhile=patch.object(Session, "_hand_over", broken))


def test_a_commit_topic_that_was_lost_is_not_a_fresh_start(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    topic = topic_of(pipeline)
    produce(clusters.source_servers, topic, [b"x"] * 20, 0)
    copy(pipeline)
    delete_topic(clusters.target_servers, pipeline.coordination.commit.topic)
    with pytest.raises(Refused, match=r"deleted and created anew.*new group\.id"):
        copy(pipeline)
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)


def test_two_instances_that_begin_a_group_at_once(
    clusters: KafkaSandbox, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has found no position, and then mappings of the other one: the commit topic was not lost for all that."""
    flow = Flow(clusters, topic_of(pipeline))
    flow.write(20)
    overtaken = threading.Event()

    def read(*args: Any, **rest: Any) -> CommitLog:
        commit_log = read_commit_log(*args, **rest)
        if not overtaken.is_set():
            overtaken.set()
            copy(pipeline)
        return commit_log

    monkeypatch.setattr(generations, "read_commit_log", read)
    assert copy(pipeline).topics[topic_of(pipeline)].lag == 0
    assert overtaken.is_set()
    assert_exact(clusters, pipeline)


@pytest.mark.slow
def test_another_pipeline_of_the_same_group_takes_over_too(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    """Progress belongs to the group: two pipelines that share one would copy everything twice."""
    another_pipeline_takes_over(clusters, pipeline)


def another_pipeline_takes_over(
    clusters: KafkaSandbox, pipeline: Pipeline, meanwhile: AbstractContextManager[object] | None = None
) -> None:
    """A copy is taken over, at once and whole, by a pipeline of the same group and of another name: its ids are others.

    Args:
        clusters: Both.
        pipeline: The one that copies first.
        meanwhile: Entered until the other one holds everything.
    """
    flow = Flow(clusters, topic_of(pipeline))
    flow.write(10)
    first = Running(pipeline, 1)
    wait_until(lambda: first.copied() == flow.written, 120, "the first pipeline to copy")
    with meanwhile or nullcontext():
        other = Running(pipeline.model_copy(update={"name": unique("other")}), 2)
        wait_until(lambda: owners(clusters, pipeline) == {2}, 120, "the other pipeline to hold all partitions")
    flow.write(10)
    wait_until(lambda: other.copied() == 40, 120, "the other pipeline to copy")
    other.end()
    first.end()
    assert_same_content(clusters.source_servers, topic_of(pipeline), clusters.target_servers)


def _newest(pipeline: Pipeline, target: Cluster) -> int:
    if pipeline.coordination.assignment.topic not in target.topics():
        return -1
    with AssignmentTail(pipeline, target) as tail:
        return tail.catch_up().newest()
