"""G6: one writer per partition; who was taken over from can commit nothing, and stands by."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from k2k_assets.deadline import wait_until
from k2k_assets.errors import Refused, Superseded
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication import run
from k2k_assets.replication.assignment import rules
from k2k_assets.replication.assignment.fencing import fence
from k2k_assets.replication.assignment.holding import Holding
from k2k_assets.replication.assignment.tail import AssignmentTail
from k2k_assets.replication.commit_log import CommitLog, read_commit_log
from k2k_assets.replication.plan import transactional_id
from k2k_assets.replication.session import Session
from k2k_assets.replication.slot import Slot
from k2k_assets.replication.vacancies import Vacancies
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.topics.control_topics import ensure_control_topics
from k2k_assets.transport.errors import Fenced, Restart
from k2k_assets.transport.librdkafka_sink import TransactionalSink
from k2k_assets_tests.support.copying import (
    Running,
    assert_same_content,
    contents,
    copy,
    in_processes,
    in_threads,
)
from k2k_assets_tests.support.kafka import create_topic, delete_topic, produce, read_all, unique
from k2k_assets_tests.support.pipelines import make_pipeline
from k2k_assets_tests.support.takeovers import (
    Flow,
    assert_exact,
    assignments,
    await_written,
    claims_written,
    copied_to,
    generations,
    owners,
    share,
    silences_before_claims,
    topic_of,
    without_headers,
)

pytestmark = pytest.mark.integration


# Longer than any test waits: where this is the grace window, nobody has waited for it.
FOR_EVER_SECONDS = 600
GRACE_SECONDS = 6


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    topic = create_topic(clusters.source_servers, unique("taken"), 4)
    return pipeline_of(clusters, tmp_path, [topic])


def pipeline_of(
    clusters: KafkaSandbox, directory: Path, topics: list[str], mode: str = "enabled", grace: int = FOR_EVER_SECONDS
) -> Pipeline:
    features = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"}
    return make_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        topics,
        features=features,
        coordination={"assignment": {"topic": unique("claims"), "graceWindow": f"{grace} seconds"}},
    )


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
    wait_until(lambda: first.copied() == flow.written, 60, "the first instance to copy")
    second = Running(pipeline, second_slots)
    wait_until(lambda: owners(clusters, pipeline) == {2}, 60, "the second instance to hold all partitions")
    flow.write()
    wait_until(lambda: copied_to(pipeline, clusters) == flow.written, 60, "the second instance to copy")
    assert first.error is None
    assert owners(clusters, pipeline) == {2}, "the first one stands by"

    second.end()
    flow.write()
    wait_until(lambda: copied_to(pipeline, clusters) == flow.written, 60, "the first instance to take over again")
    first.end()
    assert owners(clusters, pipeline) == set()
    if mode == "enabled":
        assert_exact(clusters, pipeline)
    else:  # on a slow machine the first one was fenced before it had committed all: then it is copied once more
        wanted = contents(read_all(clusters.source_servers, topic))
        assert list(dict.fromkeys(map(without_headers, contents(read_all(clusters.target_servers, topic))))) == list(
            map(without_headers, wanted)
        )


def test_a_silent_owner_is_taken_over_from_after_the_grace_window(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """The newer instance dies without a word, all its slots at once; the stand-by notices by itself, and not before."""
    topic = create_topic(clusters.source_servers, unique("silent"), 4)
    pipeline = pipeline_of(clusters, tmp_path, [topic], grace=GRACE_SECONDS)
    flow = Flow(clusters, topic)
    flow.write()
    first = Running(pipeline, 1)
    wait_until(lambda: first.copied() == flow.written, 60, "the first instance to copy")
    workers, kill = in_processes()
    second = Running(pipeline, 2, workers)
    wait_until(lambda: owners(clusters, pipeline) == {2}, 60, "the second instance to hold all partitions")
    flow.write()
    wait_until(lambda: second.copied() == 200, 60, "the second instance to copy")
    second.abandon()
    kill()
    flow.write()
    wait_until(lambda: first.copied() == 400, 60, "the first instance to take over")
    first.end()
    assert_exact(clusters, pipeline)
    silences = silences_before_claims(clusters, pipeline)
    assert len(silences) == 4
    assert min(silences.values()) >= GRACE_SECONDS


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> list[Restart]:
    """Why slots began anew, as one that was fenced does: it claims anew, and no generation is drawn for that.

    Not as `Fenced` alone: of a refused record all that is heard may be that its delivery failed. A commit that took
    too long, as on a busy machine, is nobody's fencing.
    """
    found: list[Restart] = []
    wait = Slot._wait

    def noting(self: Slot, error: Exception, progressed: bool) -> None:
        if isinstance(error, Restart) and "may have been sent twice" not in str(error):
            found.append(error)
        wait(self, error, progressed)

    monkeypatch.setattr(Slot, "_wait", noting)
    return found


def test_instances_of_other_topics_share_and_never_fence_each_other_again(
    clusters: KafkaSandbox, tmp_path: Path, restarts: list[Restart]
) -> None:
    """A run of one topic takes it from an instance of two: both go on, and neither is fenced for ever."""
    pipeline, topics, flows = two_topics(clusters, tmp_path)
    first = Running(pipeline, 2)
    wait_until(lambda: first.copied() == 200, 60, "the first instance to copy")
    second = Running(pipeline, 2, topics=topics[:1])
    wait_until(lambda: share(clusters, pipeline, topics), 60, "the instances to share")
    restarts.clear()
    for _ in range(5):
        before = first.copied() + second.copied()
        for flow in flows:
            flow.write(10)
        wait_until(lambda before=before: first.copied() + second.copied() == before + 40, 60, "both to copy")
    assert restarts == [], "nobody was fenced"
    assert (first.copied(), second.copied()) == (300, 100)
    assert generations(clusters, pipeline) == 2, "nobody had to begin anew"
    second.end()
    flows[0].write()
    wait_until(lambda: first.copied() == 400, 60, "the first instance to take the topic back")
    first.end()
    assert_exact(clusters, pipeline)


@pytest.mark.storm
def test_instances_that_use_the_same_ids_fence_each_other_with_all_that_they_copy(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: list[Restart]
) -> None:
    """The same without the rule, by which nobody claims an id that a higher generation uses.

    In each round there are records for both, so one commits under an id that the other has claimed away. A driver that
    sees partitions free for a moment would end it, with a generation that takes all: here none looks.
    """
    monkeypatch.setattr(rules, "free_id", lambda name, group, slot, *_: transactional_id(name, group, slot))
    monkeypatch.setattr(Vacancies, "look", lambda *_: False)
    pipeline, topics, flows = two_topics(clusters, tmp_path)

    with ExitStack() as stack:
        stack.enter_context(in_the_end_told_to_stop(Running(pipeline, 2)))
        await_written(clusters, pipeline, *flows)
        claimed = claims_written(clusters, pipeline)
        stack.enter_context(in_the_end_told_to_stop(Running(pipeline, 2, topics=topics[:1])))
        wait_until(lambda: claims_written(clusters, pipeline) >= claimed + 2, 60, "the second instance to claim")
        for _ in range(5):
            before, claimed = len(restarts), claims_written(clusters, pipeline)
            for flow in flows:
                flow.write(10)
            await_written(clusters, pipeline, *flows)
            assert len(restarts) > before, "one fenced the other"
            assert claims_written(clusters, pipeline) > claimed, "it claimed anew"


@contextmanager
def in_the_end_told_to_stop(instance: Running) -> Iterator[Running]:
    """Whatever becomes of it: it may fail too."""
    try:
        yield instance
    finally:
        instance.stop.set()
        instance.join()


def two_topics(clusters: KafkaSandbox, directory: Path) -> tuple[Pipeline, list[str], list[Flow]]:
    """A pipeline of two topics, of two partitions with 50 records each."""
    topics = [create_topic(clusters.source_servers, unique("shared"), 2) for _ in range(2)]
    flows = [Flow(clusters, topic, 2) for topic in topics]
    for flow in flows:
        flow.write()
    return pipeline_of(clusters, directory, topics), topics, flows


def test_a_bounded_run_that_is_taken_over_from_says_so(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    """It wrote its record, was overtaken, and only then begins: it claims nothing."""
    flow = Flow(clusters, topic_of(pipeline))
    flow.write(20)
    released = threading.Event()
    overtaken: list[Exception] = []

    def slow(plans: list) -> list:  # type: ignore[type-arg]
        released.wait(60)
        return in_threads(plans)

    def run_slow() -> None:
        try:
            copy(pipeline, runner=slow)
        except Exception as error:
            overtaken.append(error)

    thread = threading.Thread(target=run_slow, daemon=True)
    with Cluster("target", pipeline.client_properties("target", "admin")) as target:
        thread.start()
        wait_until(lambda: _newest(pipeline, target) >= 0, 30, "the slow instance's record")
        newer = Running(pipeline, 2)
        wait_until(lambda: newer.copied() == flow.written, 60, "the newer instance to copy")
        released.set()
        thread.join(60)
        flow.write(20)
        wait_until(lambda: newer.copied() == flow.written, 60, "the newer instance to copy on")
        newer.end()
    assert isinstance(overtaken[0], Superseded)
    assert "a newer instance has taken over" in str(overtaken[0])
    assert "process" in str(overtaken[0])
    assert_exact(clusters, pipeline)


def test_an_instance_that_was_outrun_by_one_that_is_gone_begins_anew(
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
    first_job.enter_context(patch.object(run, "_LOOK_SECONDS", 60))

    def slow(plans: list) -> list:  # type: ignore[type-arg]
        begun.set()
        go.wait(60)
        with first_job:
            return in_threads(plans)

    first = Running(pipeline, 1, slow)
    assert begun.wait(30)
    copy(pipeline)
    flow.write(20)
    go.set()
    wait_until(lambda: first.copied() == 80, 60, "the first instance to copy")
    first.end()
    assert first.error is None
    assert_exact(clusters, pipeline)


def until_told_to_stop(holding: Holding, keep_waiting: Callable[[], None]) -> None:
    """Stands in for waiting for the claims of others, as long as it takes."""
    while True:
        holding._tail.look(0.1)
        keep_waiting()


def test_a_slot_that_is_told_to_stop_before_it_has_begun_releases_what_it_has_claimed(
    clusters: KafkaSandbox, pipeline: Pipeline
) -> None:
    flow = Flow(clusters, topic_of(pipeline))
    flow.write(20)
    with patch.object(Holding, "settle", until_told_to_stop):
        first = Running(pipeline, 1)
        wait_until(lambda: assignments(clusters, pipeline).claims, 60, "claims")
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


def test_a_fenced_slot_can_commit_nothing(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    with Cluster("target", pipeline.client_properties("target", "admin")) as target:
        ensure_control_topics(pipeline, target)
    own = transactional_id(pipeline.name, pipeline.group, 2)
    old = TransactionalSink(pipeline.client_properties("target", "producer"), own, report_each=False)
    old.open()
    old.begin()
    old.write_control(pipeline.coordination.commit.topic, 0, b"{}", b"from a zombie")
    fence(pipeline, [own])
    with pytest.raises(Fenced):
        old.commit()
    committed = read_all(clusters.target_servers, pipeline.coordination.commit.topic)
    assert b"from a zombie" not in [record.value for record in committed]


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

    monkeypatch.setattr(run, "read_commit_log", read)
    assert copy(pipeline).topics[topic_of(pipeline)].lag == 0
    assert overtaken.is_set()
    assert_exact(clusters, pipeline)


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
    wait_until(lambda: first.copied() == flow.written, 60, "the first pipeline to copy")
    with meanwhile or nullcontext():
        other = Running(pipeline.model_copy(update={"name": unique("other")}), 2)
        wait_until(lambda: owners(clusters, pipeline) == {2}, 60, "the other pipeline to hold all partitions")
    flow.write(10)
    wait_until(lambda: other.copied() == 40, 60, "the other pipeline to copy")
    other.end()
    first.end()
    assert_same_content(clusters.source_servers, topic_of(pipeline), clusters.target_servers)


def _newest(pipeline: Pipeline, target: Cluster) -> int:
    if pipeline.coordination.assignment.topic not in target.topics():
        return -1
    with AssignmentTail(pipeline, target) as tail:
        return tail.catch_up().newest()
