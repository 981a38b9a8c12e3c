"""Whole copies by record batches: each committed record once, in order, mapped, with any process killed at any time."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.job import Runner
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.factory import BATCHES
from k2k_assets.transport.interface import Polled
from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.transport.record_batch.reading.source import BatchSource
from k2k_assets.transport.record_batch.writing.batch_sink import BatchSink
from k2k_assets_tests.replication.delivery.test_exactly_once import EXACTLY_ONCE, SMALL_BATCHES, write_with_gaps
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble
from k2k_assets_tests.support.copies.copying import (
    assert_exact_mappings,
    assert_same_content,
    copy,
    copying_by,
    dying_first,
    in_threads,
)
from k2k_assets_tests.support.copies.pipelines import NEVER_TIMED_OUT, make_pipeline
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration

RECORDS = 2 * 4 * 65


def by_batches(plans: Any) -> list[SlotResult]:
    """Runs each slot in a thread of this process."""
    with copying_by(BATCHES):
        return in_threads(plans)


@pytest.fixture(scope="module")
def topic_with_gaps(clusters: KafkaSandbox) -> str:
    """Two partitions of 260 committed records each, written once for all tests that only read it."""
    topic = create_topic(clusters.source_servers, unique("batches"), 2)
    write_with_gaps(clusters.source_servers, topic, 2)
    return topic


def _pipeline(
    directory: Path, clusters: KafkaSandbox, topic: str, target: str | None = None, form: str = "records"
) -> Pipeline:
    return make_pipeline(
        directory,
        clusters.source_servers,
        target or clusters.target_servers,
        [topic],
        sink={"prefix": f"{unique('copy')}."},
        features=EXACTLY_ONCE,
        coordination={"commit": {**SMALL_BATCHES, "syncTimeout": "11 minutes"}},
        producer=NEVER_TIMED_OUT,
        transport={"form": form},
    )


def _assert_copied(clusters: KafkaSandbox, pipeline: Pipeline, topic: str, runner: Runner, cores: int = 1) -> str:
    """Copies and compares; returns how the records were brought."""
    outcome = copy(pipeline, cores=cores, runner=runner)
    source, target = clusters.source_servers, clusters.target_servers
    assert outcome.topics[topic].lag == 0
    assert assert_same_content(source, topic, target, pipeline.routing.target_topic(topic)) == RECORDS
    assert_exact_mappings(pipeline, source, target, topic)
    return outcome.topics[topic].form


@pytest.mark.parametrize("cores", [1, 2])
def test_a_topic_with_gaps_is_copied_exactly(
    clusters: KafkaSandbox, tmp_path: Path, topic_with_gaps: str, cores: int
) -> None:
    _assert_copied(clusters, _pipeline(tmp_path, clusters, topic_with_gaps), topic_with_gaps, by_batches, cores)


@pytest.mark.parametrize("form", ["batches", "auto"])
def test_a_file_that_says_so_is_copied_by_batches(
    clusters: KafkaSandbox, tmp_path: Path, topic_with_gaps: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    pipeline = _pipeline(tmp_path, clusters, topic_with_gaps, form=form)
    written = Mock(side_effect=BatchSink.write, autospec=True)
    monkeypatch.setattr(BatchSink, "write", lambda *given: written(*given))
    assert _assert_copied(clusters, pipeline, topic_with_gaps, in_threads) == "batches"
    assert written.called


@pytest.mark.librdkafka
def test_what_cannot_go_by_batches_goes_on_by_records(
    clusters: KafkaSandbox, tmp_path: Path, topic_with_gaps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle, after some transactions: the next session begins at what the target holds."""
    pipeline, polls = _pipeline(tmp_path, clusters, topic_with_gaps, form="batches"), count(1)
    poll = BatchSource.poll

    def polled(self: BatchSource, limit: int, timeout: float) -> Polled:
        found = poll(self, limit, timeout)
        if found.chunks and next(polls) > 3:
            raise NotByBatches(["a batch of another kind"])
        return found

    monkeypatch.setattr(BatchSource, "poll", polled)
    form = _assert_copied(clusters, pipeline, topic_with_gaps, in_threads)
    assert form == "records: a batch of another kind"
    assert next(polls) > 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "occurrence"),
    [
        ("open", 1),
        ("write", 2),
        ("settle", 2),
        ("write_control", 5),
        ("before_commit", 4),
        ("during_commit", 4),
        ("commit", 4),
        *in_storms(("begin", 1), ("begin", 3), ("commit", 2)),
    ],
)
def test_killed_at_any_step_and_run_again(
    clusters: KafkaSandbox, tmp_path: Path, topic_with_gaps: str, step: str, occurrence: int
) -> None:
    pipeline = _pipeline(tmp_path, clusters, topic_with_gaps)
    _assert_copied(clusters, pipeline, topic_with_gaps, dying_first(step, occurrence, BATCHES))


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST])
@pytest.mark.parametrize("api", [Api.PRODUCE, Api.END_TXN])
def test_a_request_that_is_lost_on_the_way_costs_nothing(
    clusters: KafkaSandbox, tmp_path: Path, topic_with_gaps: str, api: Api, trouble: Trouble
) -> None:
    with Proxy(clusters.target_servers) as proxy:
        pipeline = _pipeline(tmp_path, clusters, topic_with_gaps, proxy.servers)
        fault = proxy.arm(Fault(api, trouble, occurrence=4))
        _assert_copied(clusters, pipeline, topic_with_gaps, by_batches)
        assert fault.chosen.is_set()


@pytest.mark.slow
def test_brokers_whose_transactions_share_an_epoch(tmp_path: Path) -> None:
    with KafkaSandbox(version="3.9.2") as older:
        topic = create_topic(older.source_servers, unique("batches"), 2)
        write_with_gaps(older.source_servers, topic, 2)
        _assert_copied(older, _pipeline(tmp_path, older, topic), topic, by_batches)
        killed = dying_first("during_commit", 4, BATCHES)
        _assert_copied(older, _pipeline(tmp_path, older, topic), topic, killed)
