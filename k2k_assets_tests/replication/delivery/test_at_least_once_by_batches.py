"""At least once by record batches: nothing is lost, order is kept, and nothing of a former owner comes late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.factory import BATCHES
from k2k_assets.transport.record_batch.wire.metadata_client import MetadataClient
from k2k_assets.transport.record_batch.wire.settings import settings_of
from k2k_assets.transport.record_batch.wire.tasks import Loop
from k2k_assets.transport.record_batch.writing import idempotent_producer
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble
from k2k_assets_tests.support.copies.copying import (
    assert_exact_mappings,
    commit_records,
    copy,
    copying_by,
    dying_first,
    in_threads,
)
from k2k_assets_tests.support.copies.pipelines import make_pipeline, of_small_transactions
from k2k_assets_tests.support.copies.slot_processes import Misfortune, SlotProcesses
from k2k_assets_tests.support.copies.troubled_copy import Written, assert_at_least_once, write_with_gaps
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def written(clusters: KafkaSandbox) -> Written:
    """600 committed records with gaps, written once for all tests that only read them."""
    return write_with_gaps(clusters.source_servers, batches=4, size=145)


def _pipeline(
    directory: Path, clusters: KafkaSandbox, topic: str, target: str | None = None, **others: Any
) -> Pipeline:
    return make_pipeline(
        directory,
        clusters.source_servers,
        target or clusters.target_servers,
        [topic],
        sink={"prefix": f"{unique('copy')}."},
        features={"exactlyOnce": "disabled", "offsetMapping": "enabled", "headerReplication": "enabled"},
        transport={"form": "batches"},
        **{**of_small_transactions(100), **others},
    )


def _by_batches(plans: Any) -> Any:
    with copying_by(BATCHES):
        return in_threads(plans)


def _assert_copied(clusters: KafkaSandbox, pipeline: Pipeline, written: Written) -> None:
    assert_at_least_once(pipeline, written, clusters.source_servers, clusters.target_servers)
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, written.topic)


def test_each_life_of_a_partition_has_an_epoch_and_nothing_comes_twice(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("lives"), 2)
    pipeline = _pipeline(tmp_path, clusters, topic)
    records = []
    for life in range(3):
        for partition in range(2):
            produce(clusters.source_servers, topic, [b"%d-%d" % (life, n) for n in range(125)], partition)
        records.append(copy(pipeline, cores=life % 2 + 1, runner=_by_batches).topics[topic].records)
    assert records == [250, 250, 250]
    assert len(read_all(clusters.target_servers, pipeline.routing.target_topic(topic))) == 750
    producers: dict[int, list[ProducerIdentity]] = {0: [], 1: []}
    for record in commit_records(pipeline, clusters.target_servers):
        assert record.producer is not None
        producers[record.source.partition].append(record.producer)
    for of_partition in producers.values():
        assert of_partition == sorted(of_partition)
        assert len({each.producer_id for each in of_partition}) == 1
        assert len({each.epoch for each in of_partition}) >= 3, "one of each life"
    assert producers[0][0].producer_id != producers[1][0].producer_id


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "occurrence"),
    [
        ("open", 1),
        ("raise_epochs", 1),
        ("commit", 2),  # the epochs are committed, and nothing is written
        ("write", 4),
        ("settle", 2),
        ("before_commit", 4),
        ("during_commit", 4),
        ("commit", 4),
        *in_storms(
            ("before_commit", 2),
            ("during_commit", 2),
            ("write_control", 2),
            ("write", 2),
            ("write_control", 5),
            ("write_control", 6),
        ),
    ],
)
def test_killed_at_any_step_and_run_again(
    clusters: KafkaSandbox, tmp_path: Path, written: Written, step: str, occurrence: int
) -> None:
    pipeline = _pipeline(tmp_path, clusters, written.topic)
    outcome = copy(pipeline, cores=1, runner=dying_first(step, occurrence, BATCHES))
    assert outcome.topics[written.topic].lag == 0
    _assert_copied(clusters, pipeline, written)


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST])
@pytest.mark.parametrize("api", [Api.INIT_PRODUCER_ID, Api.PRODUCE, Api.END_TXN])
def test_a_request_that_is_lost_on_the_way_loses_nothing(
    clusters: KafkaSandbox, tmp_path: Path, written: Written, api: Api, trouble: Trouble
) -> None:
    with Proxy(clusters.target_servers) as proxy:
        pipeline = _pipeline(tmp_path, clusters, written.topic, proxy.servers)
        fault = proxy.arm(Fault(api, trouble, occurrence=2 if api == Api.INIT_PRODUCER_ID else 5))
        assert copy(pipeline, cores=1, runner=_by_batches).topics[written.topic].lag == 0
        assert fault.chosen.is_set()
        _assert_copied(clusters, pipeline, written)


@pytest.fixture
def without_the_rule(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Each life has a producer id of its own."""
    return lambda: monkeypatch.setattr(idempotent_producer, "_raised", lambda _: None)


@pytest.fixture
def frozen() -> Iterator[SlotProcesses]:
    """A runner whose slot freezes with records that it has not sent; nothing of it is left after the test."""
    runner = SlotProcesses(Misfortune("write", 3))
    yield runner
    runner.end()


@pytest.mark.slow
@pytest.mark.parametrize("rule", [True, False], ids=["with the rule", "without the rule"])
def test_what_a_frozen_slot_sends_behind_its_successor_is_refused(
    clusters: KafkaSandbox,
    tmp_path: Path,
    written: Written,
    frozen: SlotProcesses,
    without_the_rule: Callable[[], None],
    rule: bool,
) -> None:
    """G2's residue, which this form does not have."""
    claims = {"assignment": {"topic": unique("claims"), "graceWindow": "1 second"}}
    small = of_small_transactions(100)
    pipeline = _pipeline(
        tmp_path, clusters, written.topic, coordination={**small["coordination"], **claims},
    )  # fmt: skip
    target, topic = clusters.target_servers, pipeline.routing.target_topic(written.topic)
    if not rule:
        without_the_rule()  # of the successor, which runs in this process
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(copy, pipeline, cores=1, runner=frozen)
        frozen.await_frozen()
        assert copy(pipeline, cores=1, runner=_by_batches).topics[written.topic].lag == 0
        before = [record.value for record in read_all(target, topic)]
        frozen.thaw()
        assert running.result(90).topics[written.topic].lag == 0
    after = [record.value for record in read_all(target, topic)]
    assert after[: len(before)] == before
    assert (after[len(before) :] == []) == rule


def _id_of(servers: str, topic: str) -> bytes:
    """By which requests with its records name it."""
    cluster = MetadataClient(settings_of({"bootstrap.servers": servers}))
    found = Loop().complete(cluster.ask([topic])).topics[topic].topic_id
    cluster.close()
    assert found is not None
    return found


@pytest.mark.parametrize("rule", [True, False], ids=["with the rule", "without the rule"])
def test_a_request_that_comes_after_its_session_is_refused(
    clusters: KafkaSandbox, tmp_path: Path, written: Written, without_the_rule: Callable[[], None], rule: bool
) -> None:
    if not rule:
        without_the_rule()
    with Proxy(clusters.target_servers) as proxy:
        pipeline = _pipeline(tmp_path, clusters, written.topic, proxy.servers)
        topic = create_topic(clusters.target_servers, pipeline.routing.target_topic(written.topic))
        straying = proxy.arm(Fault(Api.PRODUCE, Trouble.LOST, carrying=_id_of(clusters.target_servers, topic)))
        assert copy(pipeline, cores=1, runner=_by_batches).topics[written.topic].lag == 0
        assert straying.chosen.is_set()
        assert len(read_all(clusters.target_servers, topic)) == len(written.offsets)
        proxy.let_through(straying)
    found = len(read_all(clusters.target_servers, topic))
    assert found == len(written.offsets) if rule else found > len(written.offsets)
