"""When a new generation is needed, and how it is drawn."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.control.assignment_tail import AssignmentTopicLost
from k2k_assets.core.errors import ClusterUnreachable, NotAllowed
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver import generations as module
from k2k_assets.replication.driver.generations import Generations
from k2k_assets_tests.replication.driver.fakes import generations_on


def test_both_clients_are_renewed_between_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has seen a cluster without brokers may never find one again."""
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.01)
    renewed: set[str] = set()
    clusters = [
        SimpleNamespace(renew_if_disturbed=lambda name=name: renewed.add(name)) for name in ("source", "target")
    ]
    unused: Any = None
    generations = replace(generations_on(unused, unused), clusters=tuple(clusters), number=3)  # type: ignore[arg-type]

    def take_over(*_: Any) -> list[Any]:
        if len(renewed) < 2:
            raise ClusterUnreachable("the source does not answer")
        return []

    monkeypatch.setattr(Generations, "_take_over", take_over)
    assert generations.draw_next(threading.Event()) == []


@pytest.mark.parametrize("why", [ClusterUnreachable, NotAllowed])
def test_a_cluster_that_does_not_answer_or_does_not_let_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, why: type[Exception]
) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.01)
    unused: Any = None
    asked: list[int] = []

    def take_over(*_: Any) -> list[Any]:
        asked.append(1)
        if len(asked) < 3:
            raise why("not now")
        return []

    monkeypatch.setattr(Generations, "_take_over", take_over)
    begun = replace(generations_on(unused, unused), clusters=(), number=3)  # type: ignore[arg-type]
    assert begun.draw_next(threading.Event()) == []
    asked.clear()
    with pytest.raises(why):
        replace(begun, number=-1).draw_next(threading.Event())


@pytest.mark.parametrize(
    ("by_hand", "waited_for", "is_taken_up"),
    [(4, False, True), (3, False, False), (4, True, False)],
    ids=["since", "before", "but another instance's"],
)
def test_a_partition_whose_position_was_set_by_hand_is_taken_up(
    by_hand: int, waited_for: bool, is_taken_up: bool
) -> None:
    """Of a topic that was created anew the claims of the override are under another id, which nobody looks for yet."""
    tp = TopicPartition("t", 0)
    snapshot = SimpleNamespace(topic_ids={tp: "id"})
    generations = replace(generations_on(snapshot, SimpleNamespace(refresh=lambda _: None)), number=3)
    generations.progress.set_by_hand = {tp: by_hand}
    generations.takeover.waited_for = {tp} if waited_for else set()
    assert generations.is_new_one_needed(copying=True) == is_taken_up


def test_a_lost_assignment_topic_ends_an_instance_that_stands_by() -> None:
    def look(*_: Any) -> bool:
        raise AssignmentTopicLost("it is another one")

    generations = generations_on(SimpleNamespace(topic_ids={}), SimpleNamespace(refresh=lambda _: None))
    generations.takeover.refresh = look  # type: ignore[assignment,method-assign]
    with pytest.raises(AssignmentTopicLost):
        generations.is_new_one_needed(copying=False)
    assert not generations.is_new_one_needed(copying=True), "its slots are not left alone"


def test_a_stop_is_read_before_its_partition_is_taken_for_free() -> None:
    """Its slot commits the stop and then releases the partition, both between two looks at the commit topic."""
    tp = TopicPartition("t", 0)
    generations = generations_on(SimpleNamespace(topic_ids={tp: "id"}), SimpleNamespace(refresh=lambda _: None))
    progress: Any = generations.progress
    progress.newest, progress.noted = {}, {}
    taken: Any = generations.takeover
    taken.refresh = lambda ids, stopped: bool(ids.keys() - stopped())
    assert generations.is_new_one_needed(copying=False)

    def read() -> list[Any]:
        progress.newest = {tp: SimpleNamespace(reason="it is stopped")}
        return []

    progress.read = read
    assert not generations.is_new_one_needed(copying=False)


def test_who_stands_by_follows_what_is_new_beside_the_rest() -> None:
    """Its result tells of all partitions, whoever copies them."""
    both = [TopicPartition("t", 0), TopicPartition("t", 1)]
    before, after = (SimpleNamespace(partitions=some, topic_ids=dict.fromkeys(some, "id")) for some in (both[:1], both))
    generations = generations_on(
        before, SimpleNamespace(refresh=lambda snapshot: after if snapshot is before else None)
    )
    progress: Any = generations.progress
    followed: list[Any] = []
    progress.newest, progress.noted, progress.follow = {}, {}, followed.extend
    taken: Any = generations.takeover
    taken.appeared = lambda new: None
    assert not generations.is_new_one_needed(copying=False)
    assert followed == both
