"""The driver of an instance while its slots work."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.control.assignment_tail import AssignmentTopicLost
from k2k_assets.core.errors import ClusterUnreachable, K2KError, NotAllowed
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver import instance as module
from k2k_assets.replication.driver.instance import Instance, _Stop
from k2k_assets.replication.driver.progress import Progress
from k2k_assets.replication.extent import Continuous, UntilCaughtUp


def test_slots_are_asked_to_end_until_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop record whose write failed may be there or not: if they end by it, that is no end of the instance."""
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "_ASK_AGAIN_SECONDS", 0.02)
    job: Any = SimpleNamespace(done=threading.Event(), superseded=None, superseded_by={})
    written: list[bool] = []

    def write_stop(pipeline: Any, generation: int, again: bool) -> None:
        written.append(again)
        if len(written) == 3:
            job.done.set()
        else:
            raise ClusterUnreachable("no acknowledgement")

    monkeypatch.setattr(module, "write_stop", write_stop)
    grounds: list[Any] = [SimpleNamespace(partitions=names, topic_ids={}) for names in ([], ["new"])]
    before, after = grounds
    run = _run_on(before, SimpleNamespace(refresh=lambda snapshot: after if snapshot is before else None))
    asked = run._watch(job, threading.Event())
    assert written == [True, True, True]
    assert asked, "a new generation is needed, for what is new"
    assert run.snapshot is after
    assert not run._is_over(job, asked)


def test_both_clients_are_renewed_between_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has seen a cluster without brokers may never find one again."""
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.01)
    renewed: set[str] = set()
    clusters = [
        SimpleNamespace(renew_if_disturbed=lambda name=name: renewed.add(name)) for name in ("source", "target")
    ]
    unused: Any = None
    run = replace(_run_on(unused, unused), clusters=tuple(clusters), _generation=3)  # type: ignore[arg-type]

    def take_over(*_: Any) -> list[Any]:
        if len(renewed) < 2:
            raise ClusterUnreachable("the source does not answer")
        return []

    monkeypatch.setattr(Instance, "_take_over", take_over)
    assert run._next_generation(threading.Event()) == []


@pytest.mark.parametrize("why", [ClusterUnreachable, NotAllowed])
def test_a_cluster_that_does_not_answer_or_does_not_let_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, why: type[Exception]
) -> None:
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.01)
    unused: Any = None
    asked: list[int] = []

    def take_over(*_: Any) -> list[Any]:
        asked.append(1)
        if len(asked) < 3:
            raise why("not now")
        return []

    monkeypatch.setattr(Instance, "_take_over", take_over)
    begun = replace(_run_on(unused, unused), clusters=(), _generation=3)  # type: ignore[arg-type]
    assert begun._next_generation(threading.Event()) == []
    asked.clear()
    with pytest.raises(why):
        replace(begun, _generation=-1)._next_generation(threading.Event())


def test_a_run_with_an_end_gives_up_however_long_its_jobs_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.0)
    failed = SimpleNamespace(
        failure=RuntimeError("an executor was lost"),
        superseded=None,
        superseded_by={},
        stopped={},
        raise_errors=lambda: None,
    )
    monkeypatch.setattr(module, "Job", lambda *_: failed)
    for name, answer in {"_next_generation": [], "_watch": False, "_copied": 0, "_ask_to_end": None}.items():
        monkeypatch.setattr(Instance, name, lambda *_, answer=answer, **__: answer)
    unused: Any = None
    run = replace(_run_on(unused, unused), extent=UntilCaughtUp())
    with pytest.raises(K2KError, match="the Spark job failed 5 times in a row: an executor was lost"):
        run.until_done(unused, threading.Event())


def test_what_fails_for_days_is_tried_again_all_the_same() -> None:
    assert module._pause(5000) == 30.0


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
    run = replace(_run_on(snapshot, SimpleNamespace(refresh=lambda _: None)), _generation=3)
    run.progress.set_by_hand = {tp: by_hand}
    run.takeover.waited_for = {tp} if waited_for else set()
    assert run._needs_new_generation(copying=True) == is_taken_up


def test_a_lost_assignment_topic_ends_an_instance_that_stands_by() -> None:
    def look(*_: Any) -> bool:
        raise AssignmentTopicLost("it is another one")

    run = _run_on(SimpleNamespace(topic_ids={}), SimpleNamespace(refresh=lambda _: None))
    run.takeover.refresh = look  # type: ignore[assignment,method-assign]
    with pytest.raises(AssignmentTopicLost):
        run._needs_new_generation(copying=False)
    assert not run._needs_new_generation(copying=True), "its slots are not left alone"


@pytest.mark.parametrize(
    ("record", "is_told"),
    [
        (None, True),
        (SimpleNamespace(reason=SourceDeleted("t"), generation=9), True),
        (SimpleNamespace(reason=None, generation=3), True),
        (SimpleNamespace(reason=None, generation=4), False),
    ],
    ids=["never begun", "stopped by another", "committed before", "copied or accepted since"],
)
def test_a_stop_is_told_at_the_end_unless_it_was_copied_on_since(record: Any, is_told: bool) -> None:
    """Also where the slots of a later generation ended before they could say it again."""
    unused: Any = None
    tp = TopicPartition("t", 0)
    why = SourceDeleted("t")
    run = replace(_run_on(unused, unused), _stopped={tp: _Stop(why, 3, None)})
    run.progress.newest = {tp: record} if record else {}  # type: ignore[misc]
    assert run._still_stopped() == ({tp: why} if is_told else {})


def _run_on(snapshot: Any, changes: Any) -> Instance:
    unused: Any = None
    nothing = Progress({}, 0.0)
    progress: Any = SimpleNamespace(set_by_hand={}, read=list, refresh=lambda: nothing, current=lambda: nothing)
    peers: Any = SimpleNamespace(paused={})
    takeover: Any = SimpleNamespace(waited_for=set(), refresh=lambda *_: False, copies_still=lambda _: True)
    slots: Any = SimpleNamespace(has_changed=lambda: False)
    return Instance(unused, Continuous(), snapshot, slots, unused, progress, peers, takeover, changes)
