"""The compression of whole batches: the source's own, unless `compression.type` says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.replication.stages.test_fidelity import CODECS, write_compressed
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.brokers.log_segments import logged_batches
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = pytest.mark.integration

RECORDS = 100


@pytest.mark.parametrize("asked", [None, *CODECS])
def test_the_compression_of_copies(clusters: KafkaSandbox, tmp_path: Path, asked: str | None) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("packed"))
    for codec in CODECS:
        write_compressed(source, topic, codec, [(b"%d" % n, f"{codec} {n} ".encode() * 50) for n in range(RECORDS)])
    pipeline = make_pipeline(
        tmp_path, source, target, [topic], transport={"form": "batches"},
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        producer={} if asked is None else {"compression.type": asked},
    )  # fmt: skip
    assert copy(pipeline).stopped == {}
    written, found = (
        {CODECS[batch.codec] for batch in logged_batches(side, topic)} for side in (clusters.source, clusters.target)
    )
    assert written == set(CODECS)
    assert found == (written if asked is None else {asked})
    assert assert_same_content(source, topic, target) == RECORDS * len(CODECS)
    assert_exact_mappings(pipeline, source, target, topic)
