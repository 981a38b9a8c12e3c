"""Live progress from the commit topic and the source's ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.commit_record import CommitRecord, Overridden
from k2k_assets.control.stop_notes import StopNote
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.source_log import StartOutsideLog
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.kafka.topic_follower import Replaced
from k2k_assets.replication.driver.outcome import outcome_of
from k2k_assets.replication.driver.progress import OLD_SECONDS, ProgressReader
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.fake_log import FakeLog, play
from k2k_assets_tests.support.memory.plans import CLUSTER, commit_record

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
COMMITS = TopicPartition("commits", 0)
GENERATION = 17


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def source() -> FakeCluster:
    return FakeCluster({"t": ("s-t", 2)}, ends={P0: 100, P1: 0}, stable={P0: 100, P1: 0})


@pytest.fixture
def target() -> FakeCluster:
    return FakeCluster({"commits": ("c-id", 1)}, ends={COMMITS: 5}, stable={COMMITS: 5})


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> list[FakeLog]:
    return play(monkeypatch)


@pytest.fixture
def reader(
    tmp_path: Path, clock: FakeClock, source: FakeCluster, target: FakeCluster, logs: list[FakeLog]
) -> ProgressReader:
    commits = {"commit": {"topic": "commits"}}
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], consumer={"group.id": "k2k.g"}, coordination=commits)
    reader = ProgressReader(pipeline, CLUSTER, source, target, [P0, P1], clock)  # type: ignore[arg-type]
    reader.counts_for(GENERATION)
    return reader


@pytest.fixture
def write(reader: ProgressReader, logs: list[FakeLog]) -> Callable[[CommitRecord], None]:
    return lambda record: logs[-1].write((record.key_bytes(), record.value_bytes()))


def mine(position: int, sequence: int, **changed: Any) -> CommitRecord:
    return commit_record(P0, position, generation=GENERATION, sequence=sequence, **changed)


def test_position_and_counters_follow_the_commit_topic(
    reader: ProgressReader, write: Callable[[CommitRecord], None]
) -> None:
    reader.begin(CommitLog({P0: commit_record(P0, 30)}))
    before = reader.refresh().partitions[P0]
    write(mine(60, 2, records=25, bytes_=250, runs=2))
    write(mine(80, 3, records=45, bytes_=450, runs=3))
    reader.read()
    after = reader.refresh().partitions[P0]

    assert (before.position, before.records, before.lag) == (30, 0, 70)
    assert (after.position, after.records, after.bytes, after.runs, after.lag) == (80, 45, 450, 3, 20)
    assert reader.starts == {P0: 30}


def test_an_end_that_the_source_told_long_ago_is_not_known(
    reader: ProgressReader, clock: FakeClock, source: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.begin(CommitLog({P0: commit_record(P0, 100)}))
    assert not reader.as_seen_now().partitions[P0].is_end_known, "it was never asked"
    reader.refresh()
    monkeypatch.setattr(source, "led_offsets", lambda *_, **__: LedOffsets({P1: 0}, {P0: "the topic has no leader"}))
    clock.advance(OLD_SECONDS - 1)
    reader.refresh()
    assert reader.as_seen_now().partitions[P0] == reader.current().partitions[P0]
    clock.advance(1)
    found = reader.as_seen_now().partitions
    assert (found[P0].is_end_known, found[P1].is_end_known) == (False, True)
    assert found[P0].readable_end == reader.current().partitions[P0].readable_end == 100, "reports tell the last one"


def test_of_a_topic_those_partitions_are_followed_that_it_has(reader: ProgressReader) -> None:
    other = TopicPartition("u", 0)
    reader.follow([other])
    assert set(reader.current().partitions) == {P0, P1, other}
    reader.follow([P0])
    assert set(reader.current().partitions) == {P0, other}, "created anew, it has fewer"


def test_what_was_read_before_an_error_is_told_after_it(
    reader: ProgressReader, write: Callable[[CommitRecord], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop among it, for one: it is read once, and nobody would hear of it."""
    follower, polls = reader._follower, iter([False, True])
    real = follower.refresh

    def refresh(timeout: float = 0.0) -> Any:
        if next(polls, False):
            raise ClusterUnreachable("the target does not answer")
        return real(timeout)

    monkeypatch.setattr(follower, "refresh", refresh)
    stopped = mine(60, 2, reason=SourceDeleted("t"))
    write(stopped)
    with pytest.raises(ClusterUnreachable):
        reader.read()
    assert [own.record for own in reader.read()] == [stopped]
    assert reader.read() == []


def test_a_stop_without_a_position_is_shown_until_there_is_one(reader: ProgressReader, logs: list[FakeLog]) -> None:
    def write(*notes: StopNote) -> None:
        logs[-1].write(*((note.key_bytes(), note.value_bytes()) for note in notes))
        reader.read()

    def shown() -> StopReason | None:
        return reader.current().partitions[P0].stopped

    older = StopNote("k2k.g", CLUSTER, P0, "p", GENERATION - 1, 0, 0, StartOutsideLog(P0, 7, 0, 4))
    own = replace(older, generation=GENERATION, reason=StartOutsideLog(P0, 9, 0, 4))
    reader.begin(CommitLog(noted={P0: older}))
    assert (shown(), dict(reader.noted)) == (None, {P0: older}), "it is tried again"
    write(own, replace(own, group="other", source=P1), own)
    assert (shown(), reader.new_stops(), reader.new_stops()) == (own.reason, [own], [])
    reader.apply(mine(0, 1, kind="start"))
    assert (shown(), dict(reader.noted)) == (None, {})
    write(own)
    assert (shown(), reader.new_stops()) == (None, []), "a position counts, whatever was noted"


def test_a_stop_by_somebody_else_since_is_shown(reader: ProgressReader) -> None:
    """A click that tries again, say: the partition is no more copied on than before."""
    reader.apply(mine(60, 2, reason=SourceDeleted("t")))
    reader.apply(commit_record(P0, 60, generation=GENERATION + 1, reason=SourceDeleted("t")))
    assert reader.current().partitions[P0].stopped == SourceDeleted("t")
    reader.apply(commit_record(P0, 60, generation=GENERATION + 2, kind="override"))
    assert reader.current().partitions[P0].stopped is None


def test_records_of_others_and_unreadable_ones_are_passed_over(reader: ProgressReader, logs: list[FakeLog]) -> None:
    for record in (mine(60, 2, group="other"), mine(60, 2, cluster="other")):
        logs[-1].write((record.key_bytes(), record.value_bytes()))
    logs[-1].write((b"?", b"?"), (mine(60, 2).key_bytes(), None))
    reader.read()
    assert reader.current().partitions[P0].position == 0


def test_an_older_record_does_not_move_the_position_back(reader: ProgressReader) -> None:
    reader.apply(mine(60, 2))
    reader.apply(mine(40, 1))
    reader.apply(commit_record(P0, 99, generation=GENERATION - 1, sequence=7))
    assert reader.current().partitions[P0].position == 60


def test_a_run_of_several_generations_adds_them_up_and_begins_at_its_first_start(reader: ProgressReader) -> None:
    reader.apply(mine(10, 1, kind="start", records=0))
    reader.apply(mine(40, 4, records=30))
    reader.counts_for(GENERATION + 5)
    reader.apply(commit_record(P0, 55, generation=GENERATION + 5, sequence=1, records=15))
    assert reader.current().partitions[P0].records == 45
    assert reader.starts == {P0: 10}


def test_what_was_set_by_hand_is_told_until_somebody_copies_on(
    reader: ProgressReader, write: Callable[[CommitRecord], None]
) -> None:
    write(mine(10, 1))
    done = Overridden("anna", None, 10, "s", "t", None)
    write(commit_record(P0, 3, generation=GENERATION + 2, kind="override", overridden=done))
    reader.read()
    assert reader.set_by_hand == {P0: GENERATION + 2}
    write(commit_record(P0, 3, generation=GENERATION + 3, kind="start", overridden=done))
    reader.read()
    assert reader.set_by_hand == {}


def test_a_reason_counts_only_if_this_run_gave_it(reader: ProgressReader) -> None:
    reader.apply(commit_record(P0, 60, generation=GENERATION - 1, reason=SourceDeleted("t")))
    assert reader.current().partitions[P0].stopped is None
    reader.apply(mine(60, 2, kind="release", reason=SourceDeleted("t")))
    assert reader.current().partitions[P0].stopped == SourceDeleted("t")


def test_an_open_source_transaction_is_shown_and_named_once_after_a_minute(
    reader: ProgressReader, source: FakeCluster, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    source._offsets["latest"] = {P0: 130, P1: 0}
    reader.apply(mine(99, 1))
    assert reader.refresh().partitions[P0].held_since is None, "there is still something to copy before it"

    reader.apply(mine(100, 2))
    began = clock.now
    assert reader.refresh().partitions[P0].held_since == began
    clock.advance(59)
    with caplog.at_level(logging.WARNING, "k2k.replication"):
        assert reader.refresh().partitions[P0].held_since == began
        assert caplog.text == ""
        clock.advance(2)
        reader.refresh()
        clock.advance(2)
        reader.refresh()
    assert [r.message for r in caplog.records] == [
        "t-0 on the source is held at offset 100 by an open transaction for 61 s (30 offsets wait behind it). "
        "Find it with kafka-transactions.sh find-hanging --topic t --partition 0 --max-transaction-timeout 1"
    ]

    source._offsets["stable"] = {P0: 110, P1: 0}
    reader.apply(mine(110, 3))
    assert reader.refresh().partitions[P0].held_since == clock.now, "another transaction"
    source._offsets["stable"] = {P0: 130, P1: 0}
    assert reader.refresh().partitions[P0].held_since is None


def test_the_end_of_a_partition_that_has_had_no_leader_is_not_known(
    reader: ProgressReader, source: FakeCluster
) -> None:
    source.offline_partitions.add(P1)
    reader.refresh()
    outcome = outcome_of({"t": ("t", 2)}, CommitLog(), reader, {}, GENERATION, 1.0).topics["t"].partitions
    assert (outcome[0].readable_end, outcome[0].is_end_known) == (100, True)
    assert (outcome[1].lag, outcome[1].is_end_known) == (0, False)

    source.offline_partitions.clear()
    reader.refresh()
    source.offline_partitions.add(P1)
    assert reader.refresh().partitions[P1].readable_end == 0, "what was known stays known"


def test_an_unreachable_source_leaves_what_was_known(reader: ProgressReader, source: FakeCluster) -> None:
    reader.refresh()
    reader.apply(mine(60, 2))

    def no_answer(*_: Any, **__: Any) -> Any:
        raise ClusterUnreachable("nobody there")

    source.led_offsets = no_answer  # type: ignore[method-assign]
    with pytest.raises(ClusterUnreachable):
        reader.refresh()
    assert (reader.current().partitions[P0].position, reader.current().partitions[P0].readable_end) == (60, 100)


def test_a_topic_that_may_not_be_seen_any_more_hides_no_other(
    reader: ProgressReader, source: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = source.led_offsets

    def led_offsets(partitions: Any, *rest: Any, **more: Any) -> LedOffsets:
        if any(tp.topic == "hidden" for tp in partitions):
            raise Refused("it is hidden")
        return everything(partitions, *rest, **more)

    monkeypatch.setattr(source, "led_offsets", led_offsets)
    hidden = TopicPartition("hidden", 0)
    reader.follow([hidden])
    seen = reader.refresh().partitions
    assert seen[P0].readable_end == 100
    assert seen[hidden].readable_end == END_UNKNOWN


def test_a_commit_topic_that_is_silent_for_long_is_asked_where_it_ends(
    reader: ProgressReader, logs: list[FakeLog], target: FakeCluster, clock: FakeClock
) -> None:
    target._offsets["stable"] = target._offsets["latest"] = {COMMITS: 9}
    clock.advance(31)
    reader.read()
    assert reader.as_seen_now().silence == 31
    await_answer(reader)
    reader.read()
    assert reader.as_seen_now().silence == 0
    reader.read()
    assert logs[-1].doubts == [{COMMITS: 9}]


def test_a_commit_topic_that_was_created_anew_is_noticed(
    reader: ProgressReader, target: FakeCluster, clock: FakeClock
) -> None:
    """Nothing would come of it any more, and the run would look as if it stood still."""
    target.topics["commits"] = ("another-id", 1)
    clock.advance(31)
    reader.read()
    await_answer(reader)
    with pytest.raises(Replaced, match=r"the topic commits on the .* was deleted and created anew"):
        reader.read()
    reader.apply(mine(60, 2))
    assert reader.current().partitions[P0].position == 60, "what was known stays known"


def test_what_is_set_by_hand_while_the_run_begins_is_told_whoever_reads_it_first(reader: ProgressReader) -> None:
    by_hand = commit_record(
        P0, 3, generation=GENERATION + 2, kind="override", overridden=Overridden("anna", None, 10, "s", "t", None)
    )
    reader.begin(CommitLog({P0: by_hand}))
    assert reader.set_by_hand == {P0: GENERATION + 2}
    reader.apply(by_hand)
    assert reader.set_by_hand == {P0: GENERATION + 2}


def await_answer(reader: ProgressReader) -> None:
    """Waits for what is asked of the commit topic in a thread."""
    probe = reader._follower._probe
    wait_until(lambda: probe.asked is not None and probe.asked.done(), 120, "the answer")
