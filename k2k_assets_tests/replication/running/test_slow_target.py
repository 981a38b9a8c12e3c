"""A target behind a slow network gets transactions that it can accept before they time out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.librdkafka.at_least_once_sink import AtLeastOnceSink
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, unique
from k2k_assets_tests.support.brokers.proxy import Proxy
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, copy
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline
from k2k_assets_tests.support.proof.verifying import ID, verify

pytestmark = pytest.mark.integration

SIZE, RECORDS = 20_000, 800
TIMEOUT_SECONDS = 3
RATE = 2_000_000


@pytest.mark.storm
@MODES
def test_what_is_too_much_for_one_transaction_goes_in_several(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """More in one batch than the line takes before a transaction times out; nothing in it can be compressed.

    At least once no transaction is open meanwhile, and the sink's patience ends: what was sent comes, and comes again.
    """
    monkeypatch.setattr(AtLeastOnceSink.__init__, "__defaults__", (float(TIMEOUT_SECONDS),))
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("large"))
    noise = random.Random(7)
    records = [Record(None, noise.randbytes(SIZE), [(ID, b"%d" % number)]) for number in range(RECORDS)]
    produce(source, topic, records, 0)
    with Proxy(target, RATE) as line:
        producer = {"transaction.timeout.ms": 1000 * TIMEOUT_SECONDS}
        pipeline = make_pipeline(
            tmp_path,
            source,
            line.servers,
            [topic],
            producer=producer,
            sink={"prefix": f"{unique('slow')}."},
            features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
        )
        assert not copy(pipeline, cores=1).stopped
    verdict = verify(pipeline, source, target, [topic])
    assert (verdict.records, verdict.problems) == (RECORDS, [])
    assert verdict.copies < 3 * RECORDS, "what comes again gets less each time"
    assert_exact_mappings(pipeline, source, target, topic)
