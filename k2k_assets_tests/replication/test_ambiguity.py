"""G1 and G2 where nobody knows what was executed: answers that are dropped, late or cut off, on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.kafka_frames import Api
from k2k_assets_tests.support.proxy import Trouble
from k2k_assets_tests.support.troubled_copy import Case, TroubledCopy, Written, all_of, write_with_gaps

pytestmark = pytest.mark.integration

ANY, DATA, CONTROL, ID = "", "data", "control", "id"
# Steps are those of `k2k_assets_tests/support/steps.py`.
WRITES = [
    (Api.INIT_PRODUCER_ID, "begin", ANY),  # of the producer that announces the instance
    (Api.FIND_COORDINATOR, "open", ID),
    (Api.INIT_PRODUCER_ID, "open", ID),
    (Api.INIT_PRODUCER_ID, "again", ID),  # of the producer that fences the earlier instance
    *((Api.ADD_PARTITIONS_TO_TXN, step, ANY) for step in ("claim", "start", "first", "middle", "last", "release")),
    (Api.PRODUCE, "begin", ANY),  # the announcement
    (Api.PRODUCE, "claim", ANY),
    (Api.PRODUCE, "start", CONTROL),
    *((Api.PRODUCE, step, kind) for step in ("first", "middle", "last") for kind in (DATA, CONTROL)),
    (Api.PRODUCE, "release", ANY),
    *((Api.END_TXN, step, ANY) for step in ("claim", "start", "first", "middle", "last", "release")),
]
READS = [
    *((Api.METADATA, step, n) for step, n in (("begin", 1), ("claim", 1), ("claim", 2), ("first", 1))),
    *((Api.LIST_OFFSETS, step, n) for step, n in (("begin", 1), ("begin", 2), ("again", 1))),
    *((Api.FETCH, step, n) for step, n in (("begin", 1), ("begin", 2), ("first", 1))),
]
# What the target is asked before anything is copied: who works, and how far.
POSITIONS = [
    *((Api.LIST_OFFSETS, "again", n) for n in range(1, 9)),
    *((Api.FETCH, "again", n) for n in range(1, 5)),
    *((Api.METADATA, "again", n) for n in (1, 2, 3, 5)),
]


def writes(trouble: Trouble, exactly_once: bool) -> list[Case]:
    return [Case("target", api, trouble, step, kind, exactly_once=exactly_once) for api, step, kind in WRITES]


def reads(trouble: Trouble) -> list[Case]:
    of_source = [Case("source", api, trouble, step, occurrence=n) for api, step, n in READS]
    return of_source + [Case("target", api, trouble, step, occurrence=n) for api, step, n in POSITIONS]


# An answer of these that never comes is missed only after the admin client's own 15 s.
SLOWLY_MISSED = (Api.METADATA, Api.LIST_OFFSETS)
EVERYTHING = [
    *(case for trouble in Trouble for case in writes(trouble, exactly_once=True)),
    *(case for trouble in Trouble for case in writes(trouble, exactly_once=False)),
    *(case for trouble in Trouble for case in reads(trouble)),
]
# Each trouble, and nearly each request at each step, in some combination.
SOME = [case for case in EVERYTHING[::13] if not (case.trouble is Trouble.DROPPED and case.api in SLOWLY_MISSED)]


@pytest.fixture(scope="module")
def written(clusters: KafkaSandbox) -> Written:
    """260 committed records with gaps: three transactions of the copy at least."""
    return write_with_gaps(clusters.source_servers, batches=4, size=60)


@pytest.mark.parametrize("trouble", Trouble)
def test_some(clusters: KafkaSandbox, tmp_path: Path, written: Written, trouble: Trouble) -> None:
    all_of(TroubledCopy(clusters, tmp_path, written, case) for case in SOME if case.trouble is trouble)


@pytest.mark.storm
@pytest.mark.timeout(600)
@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("kind", ["exactly once", "at least once", "reads"])
def test_everything(clusters: KafkaSandbox, tmp_path: Path, written: Written, kind: str, trouble: Trouble) -> None:
    cases = reads(trouble) if kind == "reads" else writes(trouble, kind == "exactly once")
    all_of(TroubledCopy(clusters, tmp_path, written, case) for case in cases)
