"""A batch that is damaged on the source's disk: all before it is copied when the topic stops, as the stop says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.brokers.log_segments import damage, logged_batches
from k2k_assets_tests.support.copies.copying import commit_records, copy
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline

pytestmark = pytest.mark.integration

_LOOKS: dict[str, Any] = {"transform": [{"pattern": ".*", "filter": {"not": {"value": "$", "equals": "none"}}}]}
_SPREADS: dict[str, Any] = {"partition": "producer"}
_COMPRESSES: dict[str, Any] = {"producer": {"compression.type": "zstd"}}


@MODES
@pytest.mark.parametrize(
    ("form", "sections", "checksum_fits"),
    [
        pytest.param("records", {}, False, id="records"),
        pytest.param("records", {}, True, id="records: packed wrong"),
        pytest.param("batches", {}, False, id="batches"),
        pytest.param("batches", _LOOKS, True, id="batches: found by a stage"),
        pytest.param("batches", _SPREADS, True, id="batches: found where the key chooses the partition"),
        pytest.param("batches", _COMPRESSES, True, id="batches: found as they are packed anew"),
    ],
)
def test_what_lies_before_it_is_copied(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, form: str, sections: dict[str, Any], checksum_fits: bool
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("damaged"), config={"compression.type": "lz4"})
    for first in range(0, 100, 10):
        produce(source, topic, [b"%d " % n + b"x" * 100 for n in range(first, first + 10)])
    bases = [batch.base for batch in logged_batches(clusters.source, topic)]
    base = next(each for each in bases if each >= 50)
    damage(clusters.source, topic, base, checksum_fits)
    pipeline = make_pipeline(
        tmp_path, source, target, [topic], features={"exactlyOnce": mode, "offsetMapping": "enabled"},
        transport={"form": form}, **sections,
    )  # fmt: skip

    outcome = copy(pipeline, cores=1)

    (reason,) = outcome.stopped[topic].values()
    assert isinstance(reason, BatchUnreadable)
    assert commit_records(pipeline, target)[-1].position == base
    copied = [int((record.value or b"").split()[0]) for record in read_all(target, topic)]
    assert copied == list(range(base))
