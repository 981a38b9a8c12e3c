"""Spark while it starts: no takeover before it has started, and no endless wait for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.core.errors import K2KError, StoppedWaiting
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver import replicate as replicating
from k2k_assets.replication.extent import UntilCaughtUp
from k2k_assets.spark import coming_spark, lasting_spark
from k2k_assets.spark.coming_spark import ComingSpark
from k2k_assets_tests.support.copies.pipelines import make_pipeline


class Played:
    """Stands in for Java and Spark.

    Attributes:
        may_start: Spark starts when it is set.
        ended: What was ended, in order.
        failure: Raised instead of a start.
        cores: Of Spark.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_start = threading.Event()
        self.ended: list[str] = []
        self.failure: Exception | None = None
        self.cores = 2
        java = SimpleNamespace(end=lambda: self.ended.append("java"))
        monkeypatch.setattr(coming_spark, "has_java", lambda: False)
        monkeypatch.setattr(coming_spark, "start_java", lambda conf, flags: java)
        monkeypatch.setattr(lasting_spark, "LastingSpark", self._build)

    def _build(self, pipeline: Pipeline, java: object, flags: object, is_over: object) -> SimpleNamespace:
        assert self.may_start.wait(10)
        if self.failure:
            raise self.failure
        return SimpleNamespace(cores=self.cores, run_slots=list, stop=lambda: self.ended.append("spark"))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["any"], spark={"master": "local[2]"})


def engine(awaited: list[str], played: Played) -> Callable[..., Any]:
    def run(runner: Callable[..., Any], cores: int, *_: object, await_runner: Callable[[], object], **__: Any) -> Any:
        awaited.append(f"prepared for {cores} cores")
        played.may_start.set()
        await_runner()
        awaited.append("ready")
        return runner(["a plan"])

    return run


def test_all_is_prepared_while_it_starts(pipeline: Pipeline, played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    awaited: list[str] = []
    monkeypatch.setattr(replicating, "replicate_with", engine(awaited, played))
    spark = ComingSpark(pipeline)
    done: Any = spark.replicate(UntilCaughtUp(), stop=threading.Event())
    assert done == ["a plan"]
    assert awaited == ["prepared for 2 cores", "ready"]
    spark.stop()
    assert played.ended == ["spark"]


def test_nothing_is_run_where_it_does_not_start(
    pipeline: Pipeline, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    awaited: list[str] = []
    monkeypatch.setattr(replicating, "replicate_with", engine(awaited, played))
    played.failure = K2KError("Spark did not start")
    spark = ComingSpark(pipeline)
    with pytest.raises(K2KError, match="did not start"):
        spark.replicate(UntilCaughtUp(), stop=threading.Event())
    assert awaited == ["prepared for 2 cores"]
    spark.stop()
    assert played.ended == []


def test_where_spark_runs_already_its_own_settings_count(
    pipeline: Pipeline, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's may have fewer cores than the pipeline's settings say: a slot without a core does not copy."""
    awaited: list[str] = []
    monkeypatch.setattr(coming_spark, "has_java", lambda: True)
    monkeypatch.setattr(coming_spark, "start_java", lambda *_: pytest.fail("a second Java process"))
    monkeypatch.setattr(replicating, "replicate_with", engine(awaited, played))
    played.cores = 1
    played.may_start.set()
    ComingSpark(pipeline).replicate(UntilCaughtUp(), stop=threading.Event())
    assert awaited == ["prepared for 1 cores", "ready"]


def test_one_that_is_waited_for_is_not_stopped(pipeline: Pipeline, played: Played) -> None:
    spark = ComingSpark(pipeline)
    played.may_start.set()
    spark.await_start()
    assert played.ended == []


def test_one_on_a_cluster_that_does_not_start_is_not_waited_for_after_a_stop(
    tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["any"], spark={"master": "spark://host:7077"})
    stop = threading.Event()

    def never_there(*_: object, await_runner: Callable[[], object], **__: object) -> None:
        stop.set()
        await_runner()

    monkeypatch.setattr(coming_spark, "_GIVEN_UP_SECONDS", 0.1)
    monkeypatch.setattr(replicating, "replicate_with", never_there)
    with pytest.raises(StoppedWaiting, match="nothing was copied"):
        ComingSpark(pipeline).replicate(UntilCaughtUp(), stop=stop)
    played.may_start.set()


def test_slots_are_not_waited_for_after_a_stop_where_spark_was_lost(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two generations, as in front of the first one."""
    lost = SimpleNamespace(has_lost_its_jvm=lambda: True, run_slots=lambda _: pytest.fail("it is lost"))
    told: list[Callable[[], bool]] = []

    def build(_pipeline: object, _java: object, _flags: object, is_over: Callable[[], bool]) -> Any:
        told.append(is_over)
        if len(told) == 2:
            assert is_over()
            raise StoppedWaiting("stopped while it waited")
        return lost

    monkeypatch.setattr(lasting_spark, "build_engine", build)
    monkeypatch.setattr(lasting_spark, "forget", lambda *_: None)
    over = threading.Event()
    spark = lasting_spark.LastingSpark(pipeline, is_over=over.is_set)
    over.set()
    assert spark.run_slots([]) == []
    assert len(told) == 2


@pytest.fixture
def level() -> Iterator[None]:
    """That of py4j's log, put back."""
    log = logging.getLogger("py4j")
    before = log.level
    yield
    log.setLevel(before)


@pytest.mark.usefixtures("level")
def test_one_that_is_given_up_leaves_no_java(pipeline: Pipeline, played: Played) -> None:
    ComingSpark(pipeline).stop()
    assert played.ended == ["java"]
    log = logging.getLogger("py4j.java_gateway")
    assert not log.isEnabledFor(logging.ERROR), "that connections broke is no news"
    played.may_start.set()
