"""Who leads what, asked of brokers of which some are silent: nobody waits long for one while there are others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

import pytest

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.interface import Position
from k2k_assets.transport.record_batch.errors import ConnectionLost
from k2k_assets.transport.record_batch.reading import source as source_module
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets.transport.record_batch.wire import metadata_client
from k2k_assets.transport.record_batch.wire.metadata_client import MetadataClient
from k2k_assets.transport.record_batch.wire.settings import Address, SourceSettings, settings_of
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets_tests.support.brokers.black_hole import black_hole, deaf_broker
from k2k_assets_tests.support.brokers.hostile_broker import TOPIC, HostileBroker
from k2k_assets_tests.support.brokers.kafka import SECONDS

BRIEFLY = 1.0
LONG = 10 * SECONDS
Silent = Callable[[], AbstractContextManager[Address]]
SILENT = pytest.mark.parametrize("silent", [black_hole, deaf_broker])


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_client, "_BRIEFLY", BRIEFLY)


def _servers(*addresses: Address | str) -> str:
    return ",".join(each if isinstance(each, str) else f"{each[0]}:{each[1]}" for each in addresses)


def _settings(servers: str) -> SourceSettings:
    return replace(settings_of({"bootstrap.servers": servers}), setup_seconds=LONG, answer_seconds=LONG)


def _asked(settings: SourceSettings, deadline: Deadline | None = None) -> float:
    """How many seconds a new client waits for an answer."""
    cluster, began = MetadataClient(settings), time.monotonic()
    try:
        assert Loop().complete(cluster.ask([TOPIC], deadline)).topics.keys() == {TOPIC}
    finally:
        cluster.close()
    return time.monotonic() - began


@SILENT
def test_a_silent_broker_keeps_nobody_waiting_for_long_and_is_asked_last_from_then_on(silent: Silent) -> None:
    with silent() as first, HostileBroker([]) as answering:
        settings = _settings(_servers(first, answering.servers))
        assert BRIEFLY <= _asked(settings) < SECONDS
        assert settings.silent == {first}
        assert MetadataClient(settings).addresses()[-1] == first


def test_a_broker_that_answers_again_is_asked_in_its_turn_again() -> None:
    with HostileBroker([]) as first, HostileBroker([]) as second:
        settings = _settings(_servers(first.servers, second.servers))
        settings.silent.update(settings.servers)
        _asked(settings)
        assert settings.silent == set(settings.servers[1:])


def _late(api: int, frame: bytes) -> bytes:
    time.sleep(2 * BRIEFLY)
    return frame


def test_brokers_that_are_all_slow_get_their_time() -> None:
    with HostileBroker([], _late) as first, HostileBroker([], _late) as second:
        assert _asked(_settings(_servers(first.servers, second.servers))) > 2 * BRIEFLY


def test_the_only_broker_is_not_hurried() -> None:
    with HostileBroker([], _late) as only:
        assert _asked(_settings(only.servers)) > 2 * BRIEFLY


@contextmanager
def _many(silent: Silent) -> Iterator[list[Address]]:
    with ExitStack() as stack:
        yield [stack.enter_context(silent()) for _ in range(5)]


@SILENT
def test_however_many_are_silent_it_is_given_up_in_time(silent: Silent) -> None:
    with _many(silent) as addresses:
        began = time.monotonic()
        with pytest.raises(ConnectionLost, match="no answer in time"):
            _asked(_settings(_servers(*addresses)), Deadline(BRIEFLY))
        assert BRIEFLY <= time.monotonic() - began < SECONDS


def test_however_many_are_silent_the_one_that_answers_is_asked_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_client, "_BRIEFLY", LONG)
    with _many(black_hole) as addresses, HostileBroker([]) as answering:
        assert _asked(_settings(_servers(*addresses, answering.servers)), Deadline(12.0)) < 12.0


def test_however_many_brokers_there_are_a_slow_one_gets_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a distance, a share of the time for each of dozens is too short for any."""
    monkeypatch.setattr(metadata_client, "_BRIEFLY", LONG)
    with ExitStack() as stack:
        slow = [stack.enter_context(HostileBroker([], _late)).servers for _ in range(12)]
        deadline = Deadline(23 * BRIEFLY)  # a twelfth of it is shorter than the answer takes
        assert _asked(_settings(_servers(*slow)), deadline) > 2 * BRIEFLY


@SILENT
def test_whoever_waits_for_a_source_of_which_a_broker_is_silent_can_give_signs_of_life(silent: Silent) -> None:
    """Without heartbeats another instance would take over the partitions, and wait for the same broker."""
    signs: list[float] = []
    with silent() as first, HostileBroker([]) as answering:
        source = BatchSource({"bootstrap.servers": _servers(first, answering.servers)})
        began = time.monotonic()
        source.assign({TopicPartition(TOPIC, 0): Position(0)}, lambda: signs.append(time.monotonic()))
        assert time.monotonic() - began < SECONDS
        assert len(signs) > 1
        source.close()


def test_whoever_waits_for_a_source_may_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class EnoughError(Exception):
        pass

    def enough() -> None:
        raise EnoughError

    monkeypatch.setattr(source_module, "_METADATA_SECONDS", LONG)
    with black_hole() as only:
        source = BatchSource({"bootstrap.servers": _servers(only)})
        with pytest.raises(EnoughError):
            source.assign({TopicPartition(TOPIC, 0): Position(0)}, enough)
        source.close()
