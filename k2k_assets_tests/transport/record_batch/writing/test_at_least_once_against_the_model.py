"""Any history of writing, faults and frozen lives against the model: at least once, in order, nothing late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.copying import TOPICS
from k2k_assets_tests.support.model_broker.copying_at_least_once import (
    SOURCES,
    AtLeastOnceLife,
    Identities,
    committed_in,
    ensure_at_least_once,
)
from k2k_assets_tests.support.model_broker.histories import FAILURES, SECONDS, faults, send_early
from k2k_assets_tests.support.model_broker.server import Fault, ModelBroker, Trouble
from k2k_assets_tests.support.suite.properties import examples

APIS = [
    *(Api.PRODUCE, Api.PRODUCE, Api.PRODUCE, Api.PRODUCE, Api.INIT_PRODUCER_ID, Api.INIT_PRODUCER_ID),
    *(Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN, Api.END_TXN, Api.FIND_COORDINATOR, Api.METADATA),
]
FAULTS = faults(APIS, latest=12)
PIECES = st.lists(st.tuples(st.sampled_from(range(len(SOURCES))), st.integers(1, 8)), min_size=1, max_size=4)
"""From which source, and how many numbers."""
COMMITS = st.lists(PIECES, min_size=1, max_size=3)
Pieces = list[tuple[int, int]]


class Histories(RuleBasedStateMachine):
    """One slot, its lives, and a broker that makes trouble."""

    life: AtLeastOnceLife | None = None

    @initialize(version=st.sampled_from([1, 2]), ending=st.integers(0, 3), is_early=st.booleans())
    def begin(self, version: int = 2, ending: int = 0, is_early: bool = False) -> None:
        self.patched = send_early() if is_early else pytest.MonkeyPatch()
        self.cluster = ModelCluster(TOPICS)
        self.cluster.coordinator.ending = ending
        self.broker = ModelBroker(self.cluster, version).__enter__()
        self.tactics = SlotTactics(lone_writer=False, batch_bytes=1_000_000)
        self.frozen: list[AtLeastOnceLife] = []
        self.begun: dict[int, dict[TopicPartition, int]] = {}
        self.lives = 0
        self.possible = [dict.fromkeys(SOURCES, 0)]

    def former(self, found: Identities) -> Identities:
        """What a new life believes about those who have written before."""
        return found

    @rule()
    def take_over(self) -> None:
        """Begins another life, unless one goes on; that may fail. It has written nothing yet."""
        if self.life is not None:
            return
        self.lives += 1
        self.tactics.begin_session()
        life = AtLeastOnceLife(self.broker.servers, self.tactics, SECONDS, self.lives)
        try:
            life.open()
        except FAILURES:
            life.close()
            return
        committed = committed_in(self.cluster)
        assert committed.positions in self.possible
        self.check()
        self.begun[self.lives] = dict(committed.positions)
        self.life, self.possible = life, [committed.positions]
        if self._attempt(lambda: life.begin_at(committed, self.former)):
            self._commit()

    @rule(commits=COMMITS)
    def copy(self, commits: list[Pieces]) -> None:
        for pieces in commits:
            self.take_over()
            self._write(pieces)
            self._commit()

    @rule(fault=FAULTS, commits=COMMITS)
    def copy_in_trouble(self, fault: Fault, commits: list[Pieces]) -> None:
        self.broker.faults.append(replace(fault))
        self.copy(commits)

    @rule(pieces=PIECES, settles=st.booleans())
    def give_up(self, pieces: Pieces, settles: bool) -> None:
        """As when a stage fails: what was written is written again by the next life."""
        self.take_over()
        self._write(pieces, settles)
        if self.life is not None:
            self.life.close()
            self.life = None

    @rule(pieces=PIECES, settles=st.booleans())
    def freeze(self, pieces: Pieces, settles: bool) -> None:
        """As when the process is stopped: it holds its connections and its records, and may go on later."""
        self.take_over()
        self._write(pieces, settles)
        if self.life is not None:
            self.frozen.append(self.life)
            self.life = None

    @rule(pieces=PIECES)
    def wake(self, pieces: Pieces) -> None:
        """It may still write where the next life has not, and can commit nothing."""
        if self.life is None or not self.frozen:
            return  # and no precondition: which rules there are must not depend on the time that something takes
        zombie = self.frozen.pop()
        with pytest.raises(FAILURES):
            self._go_on(zombie, pieces)
        zombie.close()
        self.check()

    def check(self) -> None:
        """Compares what is on the target with what was committed."""
        ensure_at_least_once(self.cluster, self.begun)

    def _go_on(self, zombie: AtLeastOnceLife, pieces: Pieces) -> None:
        for source, count in pieces:
            zombie.write(source, count)
        zombie.commit()

    def _write(self, pieces: Pieces, settles: bool = False) -> None:
        for source, count in pieces:
            self._attempt(partial(self._write_piece, source, count))
        if settles:
            self._attempt(lambda: self._living().settle())

    def _write_piece(self, source: int, count: int) -> None:
        self._living().write(source, count)

    def _commit(self) -> None:
        if self.life is None:
            return
        before, after = self.possible[0], dict(self.life.positions)
        self.possible = [after] if self._attempt(self.life.commit) else [before, after]

    def _living(self) -> AtLeastOnceLife:
        assert self.life is not None
        return self.life

    def _attempt(self, act: Callable[[], None]) -> bool:
        """Whether it went well; else that life is over."""
        if self.life is None:
            return False
        try:
            act()
            return True
        except FAILURES:
            self.life.close()
            self.life = None
            return False

    def teardown(self) -> None:
        if not hasattr(self, "broker"):
            return
        try:
            self.broker.faults.clear()
            if self.life is not None:
                self.life.close()
                self.life = None
            self.take_over()
            assert self.life is not None, "without faults it opens, and commits its epochs"
            # The later requests of former lives, before and behind its first records.
            self._write([(0, 4), (1, 4)])
            self.broker.settle()
            self._write([(0, 8), (1, 8)], settles=True)
            self._commit()
            assert self.life is not None, "without faults it commits"
            self.broker.settle()
            assert committed_in(self.cluster).positions in self.possible
            self.check()
        finally:
            for life in [*self.frozen, *([self.life] if self.life is not None else [])]:
                life.close()
            self.broker.__exit__(None, None, None)
            self.patched.undo()


Histories.TestCase.settings = examples(40, stateful_step_count=20)
TestHistories = Histories.TestCase


class FencesNobody(Histories):
    """A slot that asks for new producer ids with each life."""

    def former(self, found: Identities) -> Identities:
        return dict.fromkeys(found)


@pytest.mark.parametrize("kind", [Histories, FencesNobody])
@pytest.mark.parametrize("settles", [False, True])
def test_without_the_raised_epoch_a_former_life_writes_behind_the_next(kind: type[Histories], settles: bool) -> None:
    history = kind()
    history.begin()
    try:
        history.copy([[(0, 3), (1, 3)]])
        history.freeze([(0, 6)], settles)
        history.copy([[(0, 12), (1, 4)]])
        if kind is Histories:
            history.wake([(0, 6)])
        else:
            with pytest.raises(AssertionError, match="behind one of a later life"):
                history.wake([(0, 6)])
            history.check = lambda: None  # type: ignore[method-assign]
    finally:
        history.teardown()


@pytest.mark.parametrize("kind", [Histories, FencesNobody])
def test_a_request_that_comes_late_is_refused_behind_the_next_life(kind: type[Histories]) -> None:
    history = kind()
    history.begin()
    try:
        history.copy([[(0, 3), (1, 3)]])
        history.broker.faults.append(Fault(Api.PRODUCE, Trouble.LATE, later=10_000))
        history.freeze([(0, 3)], settles=True)
        history.copy([[(0, 12)]])
        history.broker.settle()
        if kind is Histories:
            history.check()
        else:
            with pytest.raises(AssertionError, match="behind one of a later life"):
                history.check()
            history.check = lambda: None  # type: ignore[method-assign]
    finally:
        history.teardown()
