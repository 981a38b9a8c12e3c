"""Spark runs the task of a slot a second time in one generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from k2k_assets.core.runs import Run
from k2k_assets.mapping.algebra.fold import PartitionMapping, fold
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.interface import Sink
from k2k_assets_tests.support.brokers.kafka import OpenTransaction, create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy, in_threads, mapping_records
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.copies.steps import WrappedSink, sinks_wrapped

pytestmark = pytest.mark.integration

FIRST, MORE = 100, 35


class HoldingSink(WrappedSink):
    """Lets somebody else open a transaction in the commit topic behind the third commit."""

    def __init__(self, sink: Sink, held: list[OpenTransaction], servers: str, topic: str) -> None:
        super().__init__(sink)
        self._held, self._servers, self._topic = held, servers, topic
        self._commits = 0

    def commit(self) -> None:
        super().commit()
        self._commits += 1
        if self._commits == 3 and not self._held:
            self._held.append(OpenTransaction(self._servers, self._topic, [(b"?", b"?")]))


def in_batches_of(pipeline: Pipeline, size: int) -> Pipeline:
    commit = pipeline.coordination.commit.model_copy(
        update={"sync_timeout": timedelta(seconds=0.5), "batch_size": size}
    )
    return pipeline.model_copy(update={"coordination": pipeline.coordination.model_copy(update={"commit": commit})})


def test_what_it_does_again_at_least_once_cancels_what_was_done_though_the_commit_log_was_not_read_to_its_end(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    """Both attempts have one generation: were their sequences the same, their mappings could not be told apart."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("attempts"))
    for first in range(0, FIRST, 20):  # in batches of a commit each
        produce(source, topic, [b"%d" % i for i in range(first, first + 20)])
    made = make_pipeline(
        tmp_path,
        source,
        target,
        [topic],
        features={"exactlyOnce": "disabled", "offsetMapping": "enabled"},
        errorHandling={"onCommitSyncTimeout": "ignore"},
    )
    pipeline, held = in_batches_of(made, 20), list[OpenTransaction]()

    def twice(plans: Sequence[SlotPlan]) -> list[SlotResult]:
        with sinks_wrapped(pipeline, lambda sink: HoldingSink(sink, held, target, pipeline.coordination.commit.topic)):
            in_threads(plans)  # its result is lost
        produce(source, topic, [b"more"] * MORE)
        (plan,) = plans
        longer = tuple(replace(each, readable_end=FIRST + MORE) for each in plan.partitions)
        return in_threads([replace(plan, pipeline=in_batches_of(made, 35), partitions=longer)])

    copy(pipeline, cores=1, runner=twice)
    held[0].abort()

    # The commit log could be read up to the first twenty records.
    (runs,) = fold(PartitionMapping(), mapping_records(pipeline, target)).runs.values()
    assert runs == [Run(0, 0, 20), Run(20, FIRST, FIRST + MORE - 20)]
