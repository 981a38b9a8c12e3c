"""Any history of writing, faults, kills and frozen lives against the model: exactly once, in order, nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.coordinator import State
from k2k_assets_tests.support.model_broker.copying import NAME, TOPICS, Life, ensure_exact, position_in
from k2k_assets_tests.support.model_broker.histories import FAILURES, SECONDS, faults, send_early
from k2k_assets_tests.support.model_broker.server import Fault, ModelBroker
from k2k_assets_tests.support.suite.properties import examples

# More often what carries records, and what ends transactions.
APIS = [
    *(Api.PRODUCE, Api.PRODUCE, Api.PRODUCE, Api.END_TXN, Api.END_TXN, Api.END_TXN),
    *(Api.ADD_PARTITIONS_TO_TXN, Api.ADD_PARTITIONS_TO_TXN, Api.INIT_PRODUCER_ID, Api.FIND_COORDINATOR, Api.METADATA),
]
FAULTS = faults(APIS, latest=8)
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=3)
"""Of the chunks of a transaction."""
TRANSACTIONS = st.lists(SIZES, min_size=1, max_size=4)


class Histories(RuleBasedStateMachine):
    """One slot, its lives, and a broker that makes trouble."""

    life: Life | None = None

    @initialize(
        version=st.sampled_from([1, 2]),
        ending=st.integers(0, 3),
        first_epoch=st.sampled_from([0, 0, 32_763]),
        is_early=st.booleans(),
    )
    def begin(self, version: int, ending: int, first_epoch: int, is_early: bool) -> None:
        self.patched = send_early() if is_early else pytest.MonkeyPatch()
        self.cluster = ModelCluster(TOPICS, first_epoch)
        self.cluster.coordinator.ending = ending
        self.broker = ModelBroker(self.cluster, version).__enter__()
        self.tactics = SlotTactics(True, 1_000_000)
        self.frozen: list[Life] = []
        self.possible = {0}
        self.timed_out = False

    def open(self) -> None:
        """Begins another life, unless one goes on; that may fail."""
        if self.life is not None:
            return
        self.tactics.begin_session()
        life = Life(self.broker.servers, self.tactics, SECONDS)
        try:
            life.open()
        except FAILURES:
            life.close()
            return
        assert not self.cluster.has_open_transactions(), "it begins before the end of the transaction before it"
        position = position_in(self.cluster)
        assert position in self.possible
        ensure_exact(self.cluster)
        life.begin_at(position)
        self.life, self.possible, self.timed_out = life, {position}, False

    @rule(transactions=TRANSACTIONS, foresees=st.booleans())
    def copy(self, transactions: list[list[int]], foresees: bool) -> None:
        for sizes in transactions:
            self.open()
            self._write(sizes)
            self._commit(foresees)

    @rule(fault=FAULTS, transactions=TRANSACTIONS, foresees=st.booleans())
    def copy_in_trouble(self, fault: Fault, transactions: list[list[int]], foresees: bool) -> None:
        self.broker.faults.append(replace(fault))
        self.copy(transactions, foresees)

    @rule(sizes=SIZES, foresees=st.booleans())
    def be_too_slow(self, sizes: list[int], foresees: bool) -> None:
        """The broker aborts a transaction because it takes too long; that is found out at the commit at the latest."""
        self.open()
        self._write(sizes, settles=True)
        if self.life is not None:
            assert self.cluster.coordinator.holders[NAME].state is State.ONGOING
            self.timed_out = True
            self.broker.time_out(NAME)
        self._commit(foresees)

    @rule(sizes=SIZES, settles=st.booleans())
    def give_up(self, sizes: list[int], settles: bool) -> None:
        """As when a stage fails: the transaction is aborted, or left to the next life."""
        self.open()
        self._write(sizes, settles)
        if self.life is not None:
            self.life.close()
            self.life = None

    @rule(sizes=SIZES, settles=st.booleans())
    def freeze(self, sizes: list[int], settles: bool) -> None:
        """As when the process is stopped: it holds its connections and its records, and may go on later."""
        self.open()
        self._write(sizes, settles)
        if self.life is not None:
            self.frozen.append(self.life)
            self.life = None

    def _write(self, sizes: list[int], settles: bool = False) -> None:
        for size in sizes:
            self._attempt(lambda life, size=size: life.write(size))
        if settles:
            self._attempt(lambda life: life.settle())

    def _commit(self, foresees: bool) -> None:
        if self.life is None:
            return
        before, after = self.life.committed, self.life.position
        if self._attempt(lambda life: self._end(life, foresees)):
            assert not self.timed_out
            self.possible = {after}
        else:
            self.possible = {before} if self.timed_out else {before, after}

    def _end(self, life: Life, foresees: bool) -> None:
        life.commit(foresees)

    @precondition(lambda self: self.life is not None and self.frozen)
    @rule(foresees=st.booleans())
    def wake(self, foresees: bool) -> None:
        zombie = self.frozen.pop()
        with pytest.raises(FAILURES):
            self._go_on(zombie, foresees)
        zombie.close()

    def _go_on(self, life: Life, foresees: bool) -> None:
        life.write(1)
        life.commit(foresees)

    def _attempt(self, act: Any) -> bool:
        """Whether it went well; else that life is over."""
        if self.life is None:
            return False
        try:
            act(self.life)
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
            self.open()
            assert self.life is not None, "without faults it opens"
            self.broker.settle()
            self._write([4])
            self._commit(foresees=False)
            assert self.life is not None, "without faults it commits"
            self.broker.settle()
            assert position_in(self.cluster) in self.possible
            ensure_exact(self.cluster)
            self.life.close()
        finally:
            for zombie in self.frozen:
                zombie.close()
            self.broker.__exit__(None, None, None)
            self.patched.undo()


Histories.TestCase.settings = examples(40, stateful_step_count=20)
TestHistories = Histories.TestCase


class TakesDoubtForSuccess(Histories):
    """A slot that goes on after a commit whose outcome it does not know."""

    def _end(self, life: Life, foresees: bool) -> None:
        try:
            life.commit(foresees)
        except Restart:
            life.committed = life.position


def test_a_slot_that_takes_doubt_for_success_is_found_out() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            TakesDoubtForSuccess, settings=examples(100, stateful_step_count=20, phases=[Phase.generate])
        )
