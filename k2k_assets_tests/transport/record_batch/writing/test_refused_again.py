"""A leader that takes nothing, time and again: it is asked again after each pause, though nothing else happens."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from k2k_assets.transport.record_batch.writing.slot_tactics import SlotTactics
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.copying import TOPICS, Life, ensure_exact, position_in
from k2k_assets_tests.support.model_broker.server import Fault, ModelBroker, Trouble

SECONDS = 30.0
"""Of a step: its pauses are far shorter."""
REFUSALS = 4
NOT_LEADER, NOT_ENOUGH_REPLICAS, ENDING = 6, 19, 51


@pytest.mark.parametrize("code", [NOT_LEADER, NOT_ENOUGH_REPLICAS, ENDING])
def test_who_is_refused_again_and_again_goes_on_after_the_pauses(code: int) -> None:
    cluster = ModelCluster(TOPICS)
    with ModelBroker(cluster) as broker:
        life = Life(broker.servers, SlotTactics(True, 1_000_000), SECONDS)
        life.open()
        refused = Fault(Api.PRODUCE, Trouble.REFUSED, code=code)
        broker.faults += [replace(refused) for _ in range(REFUSALS)]
        life.write(3)
        began = time.monotonic()
        life.commit(foresees=False)
        assert not broker.faults
        assert time.monotonic() - began < SECONDS / 2
        life.close()
        assert position_in(cluster) == 3
        ensure_exact(cluster)
