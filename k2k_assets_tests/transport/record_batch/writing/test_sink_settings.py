"""Producer properties by librdkafka's names: understood, without effect, or a reason to leave it to librdkafka."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from k2k_assets.pipeline.clients.librdkafka_names import ALL_CLIENTS, PRODUCER
from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.transport.record_batch.wire import settings
from k2k_assets.transport.record_batch.writing import sink_settings
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings, sink_settings_of

SERVERS = {"bootstrap.servers": "a:1"}


def _made(more: Mapping[str, object] | None = None) -> SinkSettings:
    return sink_settings_of({**SERVERS, **(more or {})}, 30.0)


def test_the_defaults() -> None:
    found = _made()
    assert (found.packing.codec, found.hashes_keys, found.transaction_ms) == (None, True, 15_000)
    assert found.connection.servers == (("a", 1),)
    assert found.connection.answer_seconds == found.connection.setup_seconds == 5.0


def test_what_is_set_is_honoured() -> None:
    found = _made(
        {
            "compression.type": "zstd", "compression.level": 4, "partitioner": "random", "socket.timeout.ms": 700,
            "transaction.timeout.ms": 9000,
        }
    )  # fmt: skip
    assert (found.packing.codec, found.packing.level, found.hashes_keys) == (4, 4, False)
    assert (found.transaction_ms, found.connection.answer_seconds) == (9000, 0.7)


def test_what_is_not_understood_is_named_all_of_it() -> None:
    with pytest.raises(NotByBatches) as refused:
        _made({"compression.type": "brotli", "partitioner": "consistent", "sasl.kerberos.principal": "me"})
    text = str(refused.value)
    assert [word in text for word in ("brotli", "consistent", "sasl.kerberos.principal")] == [True] * 3


def test_no_property_of_a_producer_is_passed_over() -> None:
    """A name that a newer librdkafka has is a reason until somebody has thought about it."""
    thought_of = sink_settings._UNDERSTOOD | sink_settings._WITHOUT_EFFECT
    assert thought_of & PRODUCER == PRODUCER
    assert thought_of <= PRODUCER
    for name in sorted(ALL_CLIENTS - settings._UNDERSTOOD - settings._WITHOUT_EFFECT):
        with pytest.raises(NotByBatches, match=name.replace(".", r"\.")):
            _made({name: "x"})
