"""Credentials that have to be shown again in the midst of transactions, against the model broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.errors import MOST_REFUSALS
from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.copying import TOPICS, Life, ensure_exact, position_in
from k2k_assets_tests.support.model_broker.logins import ModelLogins
from k2k_assets_tests.support.model_broker.server import Fault, ModelBroker, Trouble

SECONDS = 5.0
SHORT = 0.02
MANY = 100_000
FAILURES = (Restart, ClusterUnreachable)


class Target:
    """A cluster that wants to be shown credentials, and lives that copy to it."""

    def __init__(self, broker: ModelBroker, logins: ModelLogins) -> None:
        self.broker, self.logins = broker, logins

    @contextmanager
    def life(self, properties: Mapping[str, str] | None = None) -> Iterator[Life]:
        """A life that begins where the target is."""
        found = Life(self.broker.servers, SlotTactics(True, 1_000_000), SECONDS, properties or self.logins.properties())
        try:
            found.open()
            found.begin_at(position_in(self.broker.cluster))
            yield found
        finally:
            found.close()

    def copies_all(self, numbers: int) -> None:
        """Asserts that a new life finds exactly what was committed, and goes on."""
        ensure_exact(self.broker.cluster)
        with self.life() as life:
            life.write(numbers)
            life.commit(foresees=False)
        self.broker.settle()
        ensure_exact(self.broker.cluster)


def _copy(life: Life, transactions: int) -> None:
    for _ in range(transactions):
        life.write(6)
        life.commit(foresees=False)


@pytest.fixture(params=[1, 2])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    logins = ModelLogins()
    with ModelBroker(ModelCluster(TOPICS), version=request.param, logins=logins) as broker:
        yield Target(broker, logins)


def test_they_are_shown_again_between_requests_and_nothing_is_lost(target: Target) -> None:
    target.logins.seconds = SHORT
    with target.life() as life:
        while target.logins.again < 20:
            for _ in range(10):
                life.write(6)
            life.commit(foresees=False)
        committed = life.committed
    target.broker.settle()
    assert target.logins.out_of_turn == 0
    assert position_in(target.broker.cluster) == committed
    ensure_exact(target.broker.cluster)


@pytest.mark.parametrize("closed", range(1, 5))
def test_a_broker_that_closes_because_they_come_late_costs_a_transaction_at_most(target: Target, closed: int) -> None:
    """Of the data connection, or the coordinator's, in the midst of a transaction and at its end."""
    with target.life() as life:
        for number in range(4):
            if number == 2:
                target.logins.closes = closed
            with suppress(*FAILURES):
                life.write(6)
                life.commit(foresees=bool(closed % 2))
    target.logins.closes = 0
    target.broker.settle()
    assert position_in(target.broker.cluster) >= 12
    target.copies_all(4)


@pytest.mark.parametrize("api", [Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN])
def test_who_is_refused_after_a_request_was_lost_does_not_try_on_and_on(target: Target, api: Api) -> None:
    """Else its user is locked out."""
    with target.life() as life:
        life.write(6)
        life.commit(foresees=False)
        password, target.logins.password = target.logins.password, "another"
        target.broker.faults.append(Fault(api, Trouble.LOST))
        with pytest.raises(FAILURES):
            _copy(life, transactions=1)
        assert target.logins.refused <= MOST_REFUSALS
    target.logins.password = password
    target.broker.settle()
    target.copies_all(4)


@pytest.mark.parametrize("settles", [False, True])
def test_a_login_that_is_refused_in_a_transaction_ends_it(target: Target, settles: bool) -> None:
    target.logins.seconds = SHORT
    with target.life() as life:
        life.write(6)
        life.commit(foresees=False)
        life.write(6)
        if settles:
            life.settle()
        password, target.logins.password = target.logins.password, "another"
        shown, known = target.logins.shown, target.logins.refused
        with pytest.raises(FAILURES, match=r"SASL authentication error: Authentication failed"):
            _copy(life, transactions=MANY)
        assert target.logins.refused - known <= 2 * MOST_REFUSALS
        assert target.logins.shown == shown
    target.logins.password, target.logins.seconds = password, 0.0
    target.broker.settle()
    target.copies_all(4)
