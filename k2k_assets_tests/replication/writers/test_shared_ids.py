"""G6 with instances that copy different topics: no two of them use the same transactional id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from k2k_assets.coordination import fencing_rules
from k2k_assets.coordination.fencing_rules import transactional_id
from k2k_assets.coordination.takeover import Takeover
from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Restart
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.copying import Running
from k2k_assets_tests.support.copies.takeovers import (
    Flow,
    assert_exact,
    await_written,
    claims_written,
    generations,
    pipeline_of,
    share,
)

pytestmark = pytest.mark.integration


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


@pytest.mark.slow
def test_instances_of_other_topics_share_and_never_fence_each_other_again(
    clusters: KafkaSandbox, tmp_path: Path, restarts: list[Restart]
) -> None:
    """A run of one topic takes it from an instance of two: both go on, and neither is fenced for ever."""
    pipeline, topics, flows = two_topics(clusters, tmp_path)
    first = Running(pipeline, 2)
    wait_until(lambda: first.copied() == 200, 120, "the first instance to copy")
    second = Running(pipeline, 2, topics=topics[:1])
    wait_until(lambda: share(clusters, pipeline, topics), 120, "the instances to share")
    restarts.clear()

    def copied(records: int) -> bool:
        return first.copied() + second.copied() == records

    for _ in range(5):
        before = first.copied() + second.copied()
        for flow in flows:
            flow.write(10)
        wait_until(partial(copied, before + 40), 120, "both to copy")
    assert restarts == [], "nobody was fenced"
    assert (first.copied(), second.copied()) == (300, 100)
    assert generations(clusters, pipeline) == 2, "nobody had to begin anew"
    second.end()
    flows[0].write()
    wait_until(lambda: first.copied() == 400, 120, "the first instance to take the topic back")
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
    monkeypatch.setattr(fencing_rules, "free_id", lambda name, group, slot, *_: transactional_id(name, group, slot))
    monkeypatch.setattr(Takeover, "refresh", lambda *_: False)
    pipeline, topics, flows = two_topics(clusters, tmp_path)

    with ExitStack() as stack:
        stack.enter_context(in_the_end_told_to_stop(Running(pipeline, 2)))
        await_written(clusters, pipeline, *flows)
        claimed = claims_written(clusters, pipeline)
        stack.enter_context(in_the_end_told_to_stop(Running(pipeline, 2, topics=topics[:1])))
        wait_until(lambda: claims_written(clusters, pipeline) >= claimed + 2, 120, "the second instance to claim")
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
