"""G1 and G2 where nobody knows what was executed: answers that are dropped, late or cut off, on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.kafka_frames import Api
from k2k_assets_tests.support.proxy import Trouble
from k2k_assets_tests.support.troubled_copy import Case, TroubledCopy, Written, all_of, write_with_gaps

pytestmark = pytest.mark.integration

ANY, DATA, CONTROL = "", "data", "control"
# Steps are those of `k2k_assets_tests/support/steps.py`.
TARGET = [
    (Api.INIT_PRODUCER_ID, "begin", ANY),  # of the producer that announces the instance
    (Api.INIT_PRODUCER_ID, "open", ANY),
    *((Api.ADD_PARTITIONS_TO_TXN, step, ANY) for step in ("claim", "start", "first", "middle", "last", "release")),
    (Api.PRODUCE, "begin", ANY),  # the announcement
    (Api.PRODUCE, "claim", ANY),
    (Api.PRODUCE, "start", CONTROL),
    *((Api.PRODUCE, step, kind) for step in ("first", "middle", "last") for kind in (DATA, CONTROL)),
    (Api.PRODUCE, "release", ANY),
    *((Api.END_TXN, step, ANY) for step in ("claim", "start", "first", "middle", "last", "release")),
]
SOURCE = [
    (Api.METADATA, "begin", 1),
    (Api.METADATA, "claim", 1),
    (Api.METADATA, "claim", 2),
    (Api.METADATA, "first", 1),
    (Api.LIST_OFFSETS, "begin", 1),
    (Api.LIST_OFFSETS, "begin", 2),
    (Api.FETCH, "begin", 1),
    (Api.FETCH, "begin", 2),
    (Api.FETCH, "first", 1),
]


@pytest.fixture(scope="module")
def written(clusters: KafkaSandbox) -> Written:
    """260 committed records with gaps: three transactions of the copy at least."""
    return write_with_gaps(clusters.source_servers, batches=4, size=60)


@pytest.mark.parametrize("trouble", Trouble)
def test_target(clusters: KafkaSandbox, tmp_path: Path, written: Written, trouble: Trouble) -> None:
    cases = [Case("target", api, trouble, step, carrying) for api, step, carrying in TARGET]
    all_of(TroubledCopy(clusters, tmp_path, written, case) for case in cases)


@pytest.mark.parametrize("trouble", Trouble)
def test_source(clusters: KafkaSandbox, tmp_path: Path, written: Written, trouble: Trouble) -> None:
    cases = [Case("source", api, trouble, step, occurrence=occurrence) for api, step, occurrence in SOURCE]
    all_of(TroubledCopy(clusters, tmp_path, written, case) for case in cases)


@pytest.mark.parametrize("trouble", Trouble)
def test_at_least_once(clusters: KafkaSandbox, tmp_path: Path, written: Written, trouble: Trouble) -> None:
    cases = [Case("target", api, trouble, step, carrying, exactly_once=False) for api, step, carrying in TARGET]
    all_of(TroubledCopy(clusters, tmp_path, written, case) for case in cases)
