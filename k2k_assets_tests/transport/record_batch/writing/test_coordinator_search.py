"""Brokers are asked for the coordinator within a time that they share."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from k2k_assets.core.deadline import Deadline
from k2k_assets.transport.record_batch.errors import ConnectionLost
from k2k_assets.transport.record_batch.wire.settings import Address, settings_of
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.writing.coordinator_search import sought_coordinator
from k2k_assets_tests.support.brokers.black_hole import black_hole, deaf_broker
from k2k_assets_tests.support.brokers.kafka import SECONDS

SHORT = 0.3


@pytest.mark.parametrize("silent", [black_hole, deaf_broker])
def test_silent_brokers_are_given_up_in_time(silent: Callable[[], AbstractContextManager[Address]]) -> None:
    with silent() as one, silent() as other:
        patient = replace(settings_of({"bootstrap.servers": "x:1"}), setup_seconds=SECONDS, answer_seconds=SECONDS)
        began = time.monotonic()
        with pytest.raises(ConnectionLost, match=f"{one[0]}:{one[1]}: no answer in time"):
            Loop().complete(sought_coordinator("id", lambda: [one, other], patient, Deadline(SHORT)))
        assert SHORT <= time.monotonic() - began < SECONDS
