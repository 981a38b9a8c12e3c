"""Any history of writing, faults, kills and frozen lives against the model: exactly once, in order, nothing uncommitted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from k2k_assets.core.errors import K2KError
from k2k_assets.transport.errors import Restart, Undeliverable
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.coordinator import State
from k2k_assets_tests.support.model_broker.copying import NAME, TOPICS, Life, ensure_exact, position_in
from k2k_assets_tests.support.model_broker.server import Fault, ModelBroker, Trouble
from k2k_assets_tests.support.suite.properties import examples

SECONDS = 3.0
"""Of a step: it has six attempts in that time."""
FAILURES = (Restart, Undeliverable, K2KError)
APIS = [Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN, Api.METADATA]
# Leaders and replicas; coordinators; sequences and epochs; states; what nobody knows.
CODES = [3, 5, 6, 7, 19, 20, 14, 15, 16, 45, 46, 47, 48, 49, 51, 53, 59, 74, 87, 90, 100, 120, -1]
FAULTS = st.builds(
    Fault,
    st.sampled_from(APIS),
    st.sampled_from(Trouble),
    occurrence=st.integers(1, 3),
    code=st.sampled_from(CODES),
    later=st.integers(1, 8),
)


class Histories(RuleBasedStateMachine):
    """One slot, its lives, and a broker that makes trouble."""

    life: Life | None = None

    @initialize(version=st.sampled_from([1, 2]), ending=st.integers(0, 3), first_epoch=st.sampled_from([0, 0, 32_763]))
    def begin(self, version: int, ending: int, first_epoch: int) -> None:
        self.cluster = ModelCluster(TOPICS, first_epoch)
        self.cluster.coordinator.ending = ending
        self.broker = ModelBroker(self.cluster, version).__enter__()
        self.tactics = SlotTactics(True, 1_000_000)
        self.frozen: list[Life] = []
        self.possible = {0}
        self.timed_out = False

    @precondition(lambda self: self.life is None)
    @rule()
    def open(self) -> None:
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

    @precondition(lambda self: self.life is not None)
    @rule(count=st.integers(1, 7))
    def write(self, count: int) -> None:
        self._attempt(lambda life: life.write(count))

    @precondition(lambda self: self.life is not None)
    @rule()
    def settle(self) -> None:
        self._attempt(lambda life: life.settle())

    @precondition(lambda self: self.life is not None and self.life.position > self.life.committed)
    @rule(foresees=st.booleans())
    def commit(self, foresees: bool) -> None:
        assert self.life is not None
        before, after = self.life.committed, self.life.position
        if not self._attempt(lambda life: self._commit(life, foresees)):
            self.possible = {before} if self.timed_out else {before, after}
            return
        assert not self.timed_out
        self.possible = {after}

    def _commit(self, life: Life, foresees: bool) -> None:
        life.commit(foresees)

    @precondition(lambda self: self.life is not None)
    @rule()
    def give_up(self) -> None:
        """As when a stage fails: the transaction is aborted, or left to the next life."""
        assert self.life is not None
        self.life.close()
        self.life = None

    @precondition(lambda self: self.life is not None)
    @rule()
    def freeze(self) -> None:
        """As when the process is stopped: it holds its connections, and may go on later."""
        assert self.life is not None
        self.frozen.append(self.life)
        self.life = None

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

    @rule(fault=FAULTS)
    def arm(self, fault: Fault) -> None:
        self.broker.faults.append(Fault(fault.api, fault.trouble, fault.occurrence, fault.code, fault.later))

    @precondition(lambda self: self.life is not None)
    @rule()
    def time_out(self) -> None:
        holder = self.cluster.coordinator.holders[NAME]
        self.timed_out |= holder.state is State.ONGOING
        self.broker.time_out(NAME)

    def _attempt(self, act: Any) -> bool:
        """Whether it went well; else that life is over."""
        assert self.life is not None
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
                self.give_up()
            self.open()
            assert self.life is not None, "without faults it opens"
            self.broker.settle()
            self.write(4)
            self.commit(foresees=False)
            assert self.life is not None, "without faults it commits"
            self.broker.settle()
            assert position_in(self.cluster) in self.possible
            ensure_exact(self.cluster)
            self.life.close()
        finally:
            for zombie in self.frozen:
                zombie.close()
            self.broker.__exit__(None, None, None)


Histories.TestCase.settings = examples(40, stateful_step_count=40)
TestHistories = Histories.TestCase


class TakesDoubtForSuccess(Histories):
    """A slot that goes on after a commit whose outcome it does not know."""

    def _commit(self, life: Life, foresees: bool) -> None:
        try:
            life.commit(foresees)
        except Restart:
            life.committed = life.position


def test_a_slot_that_takes_doubt_for_success_is_found_out() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            TakesDoubtForSuccess, settings=examples(100, stateful_step_count=40, phases=[Phase.generate])
        )
