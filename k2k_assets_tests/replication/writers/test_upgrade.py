"""A rolling upgrade from a release whose transactional ids had another shape: processes of both, one exact copy."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pytest

from k2k_assets.coordination import fencing_rules
from k2k_assets.coordination.fencing_rules import transactional_id
from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Continuous
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.interface import Delivery, Sink
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.copying import PROCESSES, Running, copy
from k2k_assets_tests.support.copies.pipelines import NEVER_TIMED_OUT, make_pipeline
from k2k_assets_tests.support.copies.steps import WrappedSink, sinks_wrapped
from k2k_assets_tests.support.copies.takeovers import Flow, assert_exact, assignments, await_written, owners

pytestmark = pytest.mark.integration


def _former_id(pipeline: str, group: str, number: int) -> str:
    return f"k2k.{pipeline}.{group}.{number}"


class _BefallenSink(WrappedSink):
    """Sends its process a signal where a file says so, when the records of a transaction are on the target."""

    def __init__(self, sink: Sink, number: int, file: Path) -> None:
        super().__init__(sink)
        self._number, self._file = number, file

    def settle(self) -> Sequence[Delivery]:
        delivered = super().settle()
        if delivered and self._file.exists():
            self._file.unlink()
            os.kill(os.getpid(), self._number)
        return delivered


def _copy_with_former_ids(pipeline: Pipeline, stop: Any, number: int, file: Path) -> None:
    fencing_rules.transactional_id = _former_id
    with sinks_wrapped(pipeline, partial(_BefallenSink, number=number, file=file)):
        copy(pipeline, Continuous(), cores=1, stop=stop)


@pytest.fixture
def pipeline(clusters: KafkaSandbox, tmp_path: Path) -> Pipeline:
    """One whose transactions never time out: what is open is aborted by whoever fences its id, or never."""
    return make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [create_topic(clusters.source_servers, unique("upgraded"), 4)],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"},
        coordination={
            "commit": {"topic": unique("commits"), "syncTimeout": "11 minutes"},
            "assignment": {"topic": unique("claims"), "graceWindow": "12 seconds"},
        },
        producer=NEVER_TIMED_OUT,
    )


@pytest.fixture
def flow(clusters: KafkaSandbox, pipeline: Pipeline) -> Flow:
    assert pipeline.selection.literal
    return Flow(clusters, pipeline.selection.literal[0])


def _ids(clusters: KafkaSandbox, pipeline: Pipeline) -> set[str]:
    return {claim.transactional_id for claim in assignments(clusters, pipeline).claims.values()}


@pytest.fixture
def stop() -> Any:
    return PROCESSES.Event()


def _started(pipeline: Pipeline, stop: Any, number: int, file: Path) -> BaseProcess:
    process = PROCESSES.Process(target=_copy_with_former_ids, args=(pipeline, stop, number, file), daemon=True)
    process.start()
    return process


@pytest.mark.slow
def test_what_a_killed_process_of_the_former_release_left_open_is_fenced(
    clusters: KafkaSandbox, pipeline: Pipeline, flow: Flow, stop: Any, tmp_path: Path
) -> None:
    flow.write()
    killed = tmp_path / "killed"
    killed.touch()
    former = _started(pipeline, stop, signal.SIGKILL, killed)
    former.join(60)
    assert former.exitcode == -signal.SIGKILL
    assert _ids(clusters, pipeline) == {_former_id(pipeline.name, pipeline.group, 0)}
    assert copy(pipeline, cores=1).stopped == {}
    assert _ids(clusters, pipeline) == set(), "fenced, or released"
    assert_exact(clusters, pipeline)


@pytest.mark.slow
def test_processes_of_both_releases_take_over_from_each_other(
    clusters: KafkaSandbox, pipeline: Pipeline, flow: Flow, stop: Any, tmp_path: Path
) -> None:
    """The former one is overtaken asleep in a transaction, stands by, and goes on when the new one has left."""
    asleep = tmp_path / "asleep"
    former = _started(pipeline, stop, signal.SIGSTOP, asleep)
    try:
        flow.write()
        await_written(clusters, pipeline, flow)
        asleep.touch()
        flow.write()
        process = psutil.Process(former.pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, 120, "the former release to sleep")

        new = Running(pipeline, 1)
        await_written(clusters, pipeline, flow)
        assert _ids(clusters, pipeline) == {transactional_id(pipeline.name, pipeline.group, 0)}
        process.resume()
        flow.write()
        await_written(clusters, pipeline, flow)
        assert owners(clusters, pipeline) == {2}, "the former one was fenced, and stands by"
        new.end()

        flow.write()
        await_written(clusters, pipeline, flow)
        assert _ids(clusters, pipeline) == {_former_id(pipeline.name, pipeline.group, 0)}
        stop.set()
        former.join(60)
        assert former.exitcode == 0
    finally:
        former.kill()
    assert_exact(clusters, pipeline)
