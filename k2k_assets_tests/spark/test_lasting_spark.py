"""Spark outlives its Java process, whenever that is killed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext

from k2k_assets.core.errors import K2KError, message_lines
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark import lasting_spark, slot_engines
from k2k_assets.spark.lasting_spark import LastingSpark
from k2k_assets.spark.slot_engines import ClassicSlots, SlotEngine, build_engine
from k2k_assets_tests.support.copies.pipelines import make_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.storm]


def kill_jvm() -> None:
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.kill()
    process.wait(10)


def context_of(spark: LastingSpark) -> SparkContext:
    assert isinstance(spark.engine, ClassicSlots)
    return spark.engine.context


def counted(spark: LastingSpark) -> int:
    return context_of(spark).parallelize(range(3)).count()


def killed_at_its_start(pipeline: Pipeline) -> SlotEngine:
    """As it goes when the JVM dies before Spark is whole: connections break before the process is gone."""
    build_engine(pipeline)
    threading.Timer(0.3, kill_jvm).start()
    raise Py4JNetworkError("connection refused")


def ended_at_its_start(pipeline: Pipeline) -> SlotEngine:
    raise Py4JNetworkError("connection refused")


def test_a_jvm_that_is_killed_at_its_start_or_later_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["any"], spark={"master": "local[1]"})
    builders = [killed_at_its_start, build_engine]
    monkeypatch.setattr(lasting_spark, "build_engine", lambda given, *_: builders.pop(0)(given))
    spark = LastingSpark(pipeline)
    assert counted(spark) == 3
    kill_jvm()
    assert spark.engine.has_lost_its_jvm()
    builders = [build_engine]
    monkeypatch.setattr(slot_engines, "copy_partition", lambda plans: lambda index, nothing: iter([plans[index]]))
    assert spark.run_slots(["a", "b"]) == ["a", "b"]  # type: ignore[comparison-overlap,list-item]
    assert counted(spark) == 3
    spark.stop()

    kill_jvm()
    builders = [ended_at_its_start] * 3
    with pytest.raises(K2KError, match="ended 3 times while it started"):
        LastingSpark(pipeline)


def test_a_failure_has_words_though_its_jvm_was_killed_since(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["any"], spark={"master": "local[1]"})
    spark = LastingSpark(pipeline)
    with pytest.raises(Py4JJavaError) as failed:
        context_of(spark)._jvm.java.util.ArrayDeque().removeFirst()  # type: ignore[union-attr]
    kill_jvm()
    with pytest.raises(OSError, match="refused"):
        str(failed.value)
    assert message_lines(failed.value) == ["Py4JJavaError"]
    spark.stop()


def test_a_jvm_that_is_killed_while_the_session_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["any"], spark={"master": "local[1]"})
    spark = LastingSpark(pipeline)
    stop = context_of(spark).stop

    def killed_first() -> None:
        monkeypatch.undo()
        kill_jvm()
        stop()

    monkeypatch.setattr(context_of(spark), "stop", killed_first)
    spark.stop()
    assert SparkContext._gateway is None, "the next one gets a new JVM"
