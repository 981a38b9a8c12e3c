"""Brokers that keep clients to a quota answer late, and are silent for seconds: a copy slows down, and that is all."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.kio_messages import schema_of
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, copy
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline
from k2k_assets_tests.support.model_broker.asking import Asking
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = [pytest.mark.integration, pytest.mark.own_clusters, pytest.mark.slow]

# In one transaction, which the quota lets through well before it times out.
SIZE, RECORDS = 20_000, 225
RATE = 250_000
# Brokers let so many seconds of it pass before they slow anybody down.
BURST_SECONDS = 11


@contextmanager
def quota(servers: str, client: str, rates: Mapping[str, int]) -> Iterator[None]:
    """Keeps clients of a name to rates, in bytes a second, while the body runs."""
    _alter(servers, client, rates, remove=False)
    try:
        yield
    finally:
        _alter(servers, client, rates, remove=True)


def _alter(servers: str, client: str, rates: Mapping[str, int], *, remove: bool) -> None:
    schema = schema_of("alter_client_quotas", 1, "request")
    ops = tuple(schema.OpData(key=name, value=float(rate), remove=remove) for name, rate in rates.items())
    entity = schema.EntityData(entity_type="client-id", entity_name=client)
    entries = (schema.EntryData(entity=(entity,), ops=ops),)
    request = schema.AlterClientQuotasRequest(entries=entries, validate_only=False)
    with Asking(servers, unique("quotas")) as asking:
        (answered,) = asking.ask(Api.ALTER_CLIENT_QUOTAS, 1, request).entries
    assert not answered.error_code, answered


@MODES
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("form", ["batches", *in_storms(("records",))])
def test_a_copy_that_is_slowed_down_by_quotas_goes_on_without_a_restart(
    clusters: KafkaSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str, side: str, mode: str
) -> None:
    caplog.set_level("INFO", "k2k")
    source, target = clusters.source_servers, clusters.target_servers
    topic, client, noise = create_topic(source, unique("quotas")), unique("kept"), random.Random(7)
    produce(source, topic, [Record(None, noise.randbytes(SIZE)) for _ in range(RECORDS)], 0)
    pipeline = make_pipeline(
        tmp_path, source, target, [topic], transport={"form": form},
        features={"exactlyOnce": mode, "offsetMapping": "enabled"}, sink={"prefix": f"{unique('slow')}."},
        consumer={"group.id": unique("k2k"), "client.id": client}, producer={"client.id": client},
    )  # fmt: skip
    rates = {"consumer_byte_rate": RATE} if side == "source" else {"producer_byte_rate": RATE}
    began = time.monotonic()
    with quota(source if side == "source" else target, client, rates):
        assert copy(pipeline, cores=1).stopped == {}
    assert time.monotonic() - began > SIZE * RECORDS / RATE - BURST_SECONDS, "the quota slowed it down"
    assert assert_same_content(source, topic, target, pipeline.routing.target_topic(topic)) == RECORDS
    assert_exact_mappings(pipeline, source, target, topic)
    assert not [line.getMessage() for line in caplog.records if "starts again" in line.getMessage()]
