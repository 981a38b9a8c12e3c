"""G1 and G2 with unknown outcomes: answers are dropped, delayed or cut off, on both sides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Trouble
from k2k_assets_tests.support.copies.troubled_copy import (
    Carrying,
    Case,
    Follows,
    TroubledCopy,
    Written,
    all_of,
    write_with_gaps,
)

pytestmark = pytest.mark.integration

Kind = Callable[[Trouble, bool], list[Case]]
ANY, DATA, CONTROL, MAPPING, ID, DEAD, READER, ASKER = Carrying
# Steps are those of `k2k_assets_tests/support/copies/steps.py`.
WRITES = [
    (Api.INIT_PRODUCER_ID, "begin", ANY),  # of the producer that announces the instance
    (Api.FIND_COORDINATOR, "open", ID),
    (Api.INIT_PRODUCER_ID, "open", ID),
    (Api.INIT_PRODUCER_ID, "again", ID),  # of the producer that fences the earlier instance
    *((Api.ADD_PARTITIONS_TO_TXN, step, ANY) for step in ("claim", "start", "first", "middle", "last", "release")),
    (Api.PRODUCE, "begin", ANY),  # the announcement
    (Api.PRODUCE, "claim", ANY),
    (Api.PRODUCE, "start", CONTROL),
    *((Api.PRODUCE, step, kind) for step in ("first", "middle", "last") for kind in (DATA, CONTROL, MAPPING)),
    *((Api.ADD_PARTITIONS_TO_TXN, step, kind) for step in ("first", "last") for kind in (CONTROL, MAPPING)),
    (Api.PRODUCE, "release", ANY),
    *((Api.END_TXN, step, ANY) for step in ("claim", "start", "first", "middle", "last", "release")),
]
READS = [
    *((Api.METADATA, step, ANY, n) for step, n in (("begin", 1), ("claim", 1), ("claim", 2))),
    (Api.METADATA, "start", READER, 1),
    *((Api.METADATA, step, ASKER, 1) for step in ("first", "middle", "last")),  # whether topics still are the same
    *((Api.LIST_OFFSETS, step, ANY, n) for step, n in (("begin", 1), ("begin", 2), ("again", 1))),
    *((Api.FETCH, step, ANY, n) for step, n in (("begin", 1), ("begin", 2), ("start", 1), ("first", 1), ("middle", 1))),
]
# Requests that the consumer of the source sends now and then, at any step.
NOW_AND_THEN = [
    *((Api.METADATA, step, READER) for step in ("first", "middle", "last", "release")),
    *((Api.FETCH, step, ANY) for step in ("last", "release")),
]
# Requests to the target before anything is copied: instances and positions.
POSITIONS = [
    *((Api.LIST_OFFSETS, "again", n) for n in range(1, 9)),
    *((Api.FETCH, "again", n) for n in range(1, 5)),
    *((Api.METADATA, "again", n) for n in (1, 2, 3, 5)),
]
# Whom the copy follows, who was killed within a transaction that holds the commit topic; and the requests by which that
# one is fenced: by the driver, before it plans; by the slot; and in the transaction that says so.
FENCING = [
    *((Follows.ITSELF, api, "begin", ID) for api in (Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID)),
    *((Follows.ITSELF, api, "open", ID) for api in (Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID)),
    *((Follows.ITSELF, api, "claim", ANY) for api in (Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN)),
    *((Follows.ANOTHER, api, "begin", DEAD) for api in (Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID)),
    *((Follows.ANOTHER, api, "claim", DEAD) for api in (Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID)),
    *((Follows.ANOTHER, api, "fence", ANY) for api in (Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN)),
]


def writes(trouble: Trouble, exactly_once: bool) -> list[Case]:
    return [
        *(Case("target", api, trouble, step, kind, exactly_once=exactly_once) for api, step, kind in WRITES),
        Case("target", Api.END_TXN, trouble, "commit", exactly_once=exactly_once, aborts=True),
    ]


def reads(trouble: Trouble, exactly_once: bool) -> list[Case]:
    return [
        *(Case("source", api, trouble, step, who, n, exactly_once) for api, step, who, n in READS),
        *(Case("source", api, trouble, step, who, 1, exactly_once, waits=True) for api, step, who in NOW_AND_THEN),
        *(Case("target", api, trouble, step, ANY, n, exactly_once) for api, step, n in POSITIONS),
    ]


def fencing(trouble: Trouble, exactly_once: bool) -> list[Case]:
    return [
        Case("target", api, trouble, step, carrying, exactly_once=exactly_once, follows=whom)
        for whom, api, step, carrying in FENCING
    ]


# Requests that a copy needs: the cluster, the request, its content, and whether exactly-once. The last one fences.
SAMPLED = [
    ("source", Api.FETCH, ANY, True),
    ("source", Api.METADATA, ANY, True),
    ("target", Api.END_TXN, ANY, True),
    ("target", Api.PRODUCE, DATA, True),
    ("target", Api.PRODUCE, DATA, False),
    ("target", Api.ADD_PARTITIONS_TO_TXN, ANY, True),
    ("target", Api.INIT_PRODUCER_ID, ID, True),
    ("target", Api.INIT_PRODUCER_ID, DEAD, True),
]


def sample() -> list[Case]:
    """The n-th of `SAMPLED` has the n-th trouble at the n-th of its steps; behind the last comes the first again."""
    troubles = list(Trouble)
    chosen = []
    for n, sampled in enumerate(SAMPLED):
        trouble, exactly_once = troubles[n % len(troubles)], sampled[-1]
        kinds = [fencing] if DEAD in sampled else [writes, reads]
        cases = [case for kind in kinds for case in kind(trouble, exactly_once)]
        fitting = [case for case in cases if (case.side, case.api, case.carrying, case.exactly_once) == sampled]
        chosen.append(fitting[n % len(fitting)])
    return chosen


@pytest.fixture(scope="module")
def written(clusters: KafkaSandbox) -> Written:
    """260 committed records with gaps: three transactions of the copy at least."""
    return write_with_gaps(clusters.source_servers, batches=4, size=60)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", Trouble)
def test_some(clusters: KafkaSandbox, tmp_path: Path, written: Written, trouble: Trouble) -> None:
    """A sample of the cases, for each trouble; `test_everything` runs all of them in storms."""
    all_of(TroubledCopy(clusters, tmp_path, written, case) for case in sample() if case.trouble is trouble)


@pytest.mark.storm
@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("mode", ["exactly once", "at least once"])
@pytest.mark.parametrize("kind", [writes, reads, fencing])
def test_everything(
    clusters: KafkaSandbox, tmp_path: Path, written: Written, kind: Kind, mode: str, trouble: Trouble
) -> None:
    """Each request of each kind meets each trouble, in both modes."""
    cases = kind(trouble, mode == "exactly once")
    all_of(TroubledCopy(clusters, tmp_path, written, case) for case in cases)
