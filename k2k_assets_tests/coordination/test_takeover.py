"""When an instance takes up released partitions: all at once, and none that peers are about to claim."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from k2k_assets.coordination.takeover import Takeover
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.copies.pipelines import make_pipeline

P0, P1, NEW = (TopicPartition("t", number) for number in range(3))
IDS = {P0: "s", P1: "s"}
WITH_NEW = {**IDS, NEW: "s"}


class Others:
    """What the assignment topic says; more of it is read only when somebody reads to its end."""

    def __init__(self) -> None:
        self.copied: set[TopicPartition] = set()
        self.unread: set[TopicPartition] = set()
        self.since: set[TopicPartition] = set()
        self.changing = False
        self.looked = 0

    def refresh(self) -> None:
        self.looked += 1

    def catch_up(self) -> None:
        self.copied |= self.unread

    def claimed_since(self, partitions: Mapping[TopicPartition, str]) -> set[TopicPartition]:
        return self.since & partitions.keys()

    def elsewhere(
        self, partitions: Mapping[TopicPartition, str], mine: Collection[TopicPartition]
    ) -> dict[TopicPartition, str]:
        return {tp: "another one" for tp in partitions if tp in self.copied}


class Clock:
    now = 0.0


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
def takeover(others: Any, tmp_path: Path) -> Takeover:
    """Instances look for what is new every ten seconds."""
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], sync={"metadataInterval": "10 seconds"})
    Clock.now = 100.0
    return Takeover(pipeline, others, lambda: Clock.now)


def test_what_was_left_to_others_is_taken_up_when_it_is_free(takeover: Takeover, others: Others) -> None:
    others.copied = {P0, P1}
    assert set(takeover.take(IDS)) == {P0, P1}
    assert not takeover.refresh(IDS)
    others.copied = {P1}
    assert takeover.refresh(IDS)
    assert set(takeover.take(IDS)) == {P1}
    assert not takeover.refresh(IDS), "it is ours now"


def test_what_others_took_for_a_moment_too(takeover: Takeover, others: Others) -> None:
    takeover.take(IDS)
    others.since = {P0}
    assert takeover.refresh(IDS)


def test_others_that_are_about_to_take_it_come_first_for_a_while(takeover: Takeover, others: Others) -> None:
    others.copied = {P0, P1}
    takeover.take(IDS)
    others.copied, others.changing = {P1}, True
    assert not takeover.refresh(IDS)
    Clock.now += 4
    assert not takeover.refresh(IDS)
    Clock.now += 2
    assert takeover.refresh(IDS), "whoever it is, it has had its time"
    others.copied = {P0, P1}
    assert not takeover.refresh(IDS)
    others.copied = {P1}
    assert not takeover.refresh(IDS), "another time, another while"
    others.changing = False
    assert takeover.refresh(IDS)


class Passing(Event):
    """Time passes while it is waited for."""

    def __init__(self, others: Others, change_after: float) -> None:
        super().__init__()
        self._others, self._until = others, Clock.now + change_after

    def wait(self, timeout: float | None = None) -> bool:
        Clock.now += timeout or 0
        self._others.changing = Clock.now < self._until
        return self.is_set()


@pytest.mark.parametrize(("change_after", "least", "most"), [(0, 0, 0), (2, 1.9, 2.2), (60, 4.9, 5.2)])
def test_who_draws_a_generation_waits_while_others_change_but_not_long(
    takeover: Takeover, others: Others, change_after: float, least: float, most: float
) -> None:
    others.changing, began = change_after > 0, Clock.now
    takeover.await_others(Passing(others, change_after))
    assert least <= Clock.now - began <= most


def test_a_stop_ends_the_wait_for_others(takeover: Takeover, others: Others) -> None:
    others.changing, stop = True, Passing(others, 60)
    stop.set()
    takeover.await_others(stop)
    assert others.looked == 1


def test_what_would_stop_again_is_taken_by_nobody(takeover: Takeover, others: Others) -> None:
    """Each of two instances would let go of it at once, and so invite the other one."""
    others.copied = {P0, P1}
    takeover.take(IDS)
    others.copied = set()
    assert not takeover.refresh(IDS, lambda: {P0, P1})
    assert takeover.refresh(IDS, lambda: {P0})


def test_a_topic_that_is_gone_is_not_free(takeover: Takeover, others: Others) -> None:
    others.copied = {P0, P1}
    takeover.take(IDS)
    others.copied = {P1}
    assert not takeover.refresh({P1: "s"})


def test_before_it_takes_anything_it_reads_to_the_end(takeover: Takeover, others: Others) -> None:
    others.copied = {P0, P1}
    takeover.take(IDS)
    others.copied, others.unread = set(), {P0, P1}
    assert not takeover.refresh(IDS)


def test_an_instance_whose_partitions_others_have_all_taken_copies_no_more(takeover: Takeover, others: Others) -> None:
    """Though its slots have not ended yet: what is new is not for it."""
    takeover.take(IDS)
    assert takeover.copies_still(WITH_NEW)
    others.copied = {P0}
    assert takeover.copies_still(WITH_NEW)
    others.unread = {P1}
    assert not takeover.copies_still(WITH_NEW)


def test_what_is_new_is_for_those_that_copy(takeover: Takeover, others: Others) -> None:
    others.copied = {P0, P1}
    takeover.take(IDS)
    takeover.appeared([NEW])
    assert not takeover.refresh(WITH_NEW)
    Clock.now += 14
    assert not takeover.refresh(WITH_NEW), "they look every ten seconds"
    Clock.now += 2
    assert takeover.refresh(WITH_NEW), "they do not want it"
    assert set(takeover.take(WITH_NEW)) == {P0, P1}


def test_what_is_new_is_taken_up_at_once_where_nobody_copies(takeover: Takeover, others: Others) -> None:
    takeover.take({})
    takeover.appeared([NEW])
    assert takeover.refresh({NEW: "s"})


def test_what_was_new_is_like_the_rest_once_others_had_it(takeover: Takeover, others: Others) -> None:
    others.copied = {P0, P1}
    takeover.take(IDS)
    takeover.appeared([NEW])
    others.copied.add(NEW)
    assert not takeover.refresh(WITH_NEW)
    others.copied.discard(NEW)
    assert takeover.refresh(WITH_NEW)


def test_who_copies_is_told_anew_when_the_same_instance_takes_more(
    takeover: Takeover, others: Others, caplog: pytest.LogCaptureFixture
) -> None:
    """Who takes over claims slot by slot: the first look may see one partition gone, the second both."""
    takeover.take(IDS)
    with caplog.at_level("INFO", "k2k.replication"):
        for others.copied in ({P0}, {P0, P1}, {P0, P1}, set(), {P0}):
            takeover.refresh(IDS)
    assert [m for m in caplog.messages if m.startswith("standing by")] == [
        "standing by for 1 of 2 partitions, which are copied by another one",
        "standing by for 2 of 2 partitions, which are copied by another one",
        "standing by for 1 of 2 partitions, which are copied by another one",
    ]
