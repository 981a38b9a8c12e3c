"""A target behind a slow line gets transactions that it can take before they time out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.copying import assert_exact_mappings, assert_same_content, copy
from k2k_assets_tests.support.kafka import create_topic, produce, unique
from k2k_assets_tests.support.pipelines import make_pipeline
from k2k_assets_tests.support.proxy import Proxy
from k2k_assets_tests.support.troubled_copy import EXACTLY_ONCE

pytestmark = pytest.mark.integration

SIZE, RECORDS = 20_000, 800
TIMEOUT_SECONDS = 3
RATE = 2_000_000


def test_what_is_too_much_for_one_transaction_goes_in_several(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """More in one batch than the line takes before a transaction times out; nothing in it can be compressed."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("large"))
    noise = random.Random(7)
    produce(source, topic, [noise.randbytes(SIZE) for _ in range(RECORDS)], 0)
    with Proxy(target, RATE) as line:
        producer = {"transaction.timeout.ms": 1000 * TIMEOUT_SECONDS}
        pipeline = make_pipeline(
            tmp_path,
            source,
            line.servers,
            [topic],
            target={"kafka": {"common": {"bootstrap.servers": line.servers}, "producer": producer}},
            sink={"prefix": f"{unique('slow')}."},
            features=EXACTLY_ONCE,
        )
        assert not copy(pipeline, cores=1).stopped
    assert assert_same_content(source, topic, target, pipeline.routing.target_topic(topic)) == RECORDS
    assert_exact_mappings(pipeline, source, target, topic)
