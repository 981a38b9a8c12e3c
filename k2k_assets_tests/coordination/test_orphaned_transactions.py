"""A dead slot's open transaction in the commit topic delays nobody until its timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.coordination import claims, orphaned_transactions
from k2k_assets.coordination.claims import ClaimWriter
from k2k_assets.coordination.claims import fence as real_fence
from k2k_assets.coordination.fencing_rules import transactional_id
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.librdkafka.report_mode import ReportMode
from k2k_assets.transport.librdkafka.transactional_sink import TransactionalSink
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import assert_same_content, copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration

Die = Callable[[int], None]

# Longer than any test may take: a slot that continues has not waited for it.
_FOR_EVER_SECONDS = 600


@pytest.fixture
def pipeline(request: pytest.FixtureRequest, clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    """One whose transactions outlast any test; `request.param`: its grace window in seconds, and its mode."""
    grace, mode = request.param
    topic = create_topic(clusters.source_servers, unique("left"))
    produce(clusters.source_servers, topic, [b"1"] * 5)
    return make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": mode},
        coordination={
            "commit": {"topic": unique("commits"), "syncTimeout": "11 minutes"},
            "assignment": {"topic": unique("claims"), "graceWindow": f"{grace} seconds", "fencingMaxParallelism": 2},
        },
        producer={"transaction.timeout.ms": 600_000},
    )


@pytest.fixture
def die(clusters: KafkaSandbox, pipeline: Pipeline) -> Iterator[Die]:
    """Leaves what a slot of this number leaves that dies before it commits: a claim, and an open transaction."""
    with ExitStack() as stack:
        target = stack.enter_context(Cluster("target", {"bootstrap.servers": clusters.target_servers}))

        def leave(slot: int) -> None:
            topic = (pipeline.selection.literal or ())[0]
            own = transactional_id(pipeline.name, pipeline.group, slot)
            # Its progress is in transactions in both modes; this sink can flush uncommitted records.
            sink = TransactionalSink(
                pipeline.client_properties("target", "producer"), own, ReportMode(lone_writer=True)
            )
            stack.callback(sink.close)
            tail = stack.enter_context(AssignmentTail(pipeline, target))
            sink.open()
            dead = ClaimWriter(pipeline, tail, sink, own, (0, slot))
            with Cluster("source", {"bootstrap.servers": clusters.source_servers}) as source:
                dead.claim(dead.new({TopicPartition(topic, 0): source.describe([topic])[topic].topic_id}))
            sink.begin()
            sink.write_control(pipeline.coordination.commit.topic, 0, b'{"kind":"left"}', b"{}")
            sink.settle()
            commits = [TopicPartition(pipeline.coordination.commit.topic, 0)]
            assert target.offsets(commits, "stable") != target.offsets(commits, "latest")

        yield leave


@pytest.fixture
def fenced(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """When each transactional id was fenced for the first time, by `time.monotonic()`."""
    first: dict[str, float] = {}

    def fence(pipeline: Pipeline, ids: Iterable[str], *rest: float) -> None:
        named = list(ids)
        for each in named:
            first.setdefault(each, time.monotonic())
        real_fence(pipeline, named, *rest)

    monkeypatch.setattr(orphaned_transactions, "fence", fence)
    monkeypatch.setattr(claims, "fence", fence)
    return first


def copy_within(pipeline: Pipeline, seconds: float) -> Outcome:
    """Copies with one slot; what is not copied in time stays uncopied."""
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    try:
        return copy(pipeline, cores=1, stop=stop)
    finally:
        timer.cancel()


@pytest.mark.parametrize(
    "pipeline",
    [(_FOR_EVER_SECONDS, "enabled"), pytest.param((_FOR_EVER_SECONDS, "disabled"), marks=pytest.mark.storm)],
    indirect=True,
)
def test_who_comes_after_the_dead_goes_on(
    clusters: KafkaSandbox, pipeline: Pipeline, die: Die, fenced: dict[str, float]
) -> None:
    """At once, if it has the slot of the dead itself: the grace window is ten minutes, and nobody waits for it."""
    (topic,) = pipeline.selection.literal or ()
    copy(pipeline)
    die(0)
    produce(clusters.source_servers, topic, [b"2"] * 5)
    assert copy_within(pipeline, 300).topics[topic].lag == 0
    assert transactional_id(pipeline.name, pipeline.group, 0) in fenced, "before its slot began, by the driver"
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers) == 10


@pytest.mark.parametrize(
    ("pipeline", "dead"),
    # A driver refreshes twice, a second apart; only a longer window shows that it waits for the transaction.
    [
        ((1, "enabled"), [2]),
        *in_storms(((4, "enabled"), [2]), ((4, "disabled"), [2]), ((1, "enabled"), [2, 3, 4, 5, 6])),
    ],
    indirect=["pipeline"],
)
def test_who_has_no_slot_of_that_number_goes_on_after_the_grace_window(
    clusters: KafkaSandbox, pipeline: Pipeline, die: Die, fenced: dict[str, float], dead: list[int]
) -> None:
    """They may live for all that is known: the window begins when the newcomer reads their last sign of life."""
    (topic,) = pipeline.selection.literal or ()
    copy(pipeline)
    for slot in dead:
        die(slot)
    produce(clusters.source_servers, topic, [b"2"] * 5)
    begun = time.monotonic()
    assert copy(pipeline, cores=1).topics[topic].lag == 0
    ids = [transactional_id(pipeline.name, pipeline.group, slot) for slot in dead]
    assert min(fenced[each] for each in ids) - begun >= pipeline.coordination.assignment.grace_window.total_seconds()
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers) == 10
