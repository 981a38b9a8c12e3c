"""How many slots Spark runs at once: one too many would silently not copy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark import task_slots as module
from k2k_assets.spark.task_slots import free_cores, task_slots
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@pytest.mark.parametrize(
    ("master", "executors", "cores", "most", "slots"),
    [
        ("local", None, None, None, 1),
        ("local[3]", None, None, None, 3),
        ("local[3,2]", None, None, None, 3),
        ("local-cluster[2,3,1024]", None, None, None, 6),
        ("spark://master:7077", None, None, 12, 12),
        ("spark://master:7077", None, 4, None, None),
        ("yarn", 5, None, None, 5),
        ("k8s://https://host", 5, 2, None, 10),
        ("yarn", None, None, None, None),
        ("", None, None, None, None),
    ],
)
def test_as_the_settings_tell(
    master: str, executors: int | None, cores: int | None, most: int | None, slots: int | None
) -> None:
    """The number of tasks at once by Spark's own settings; None where only a running cluster can tell."""
    assert task_slots(master, executors, cores, most) == slots


def test_all_cores_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "usable_cores", lambda: 7)
    assert task_slots("local[*]", None, None, None) == 7
    assert task_slots("local[*]", None, None, None, of_task=2) == 3


@pytest.mark.parametrize(
    ("master", "executors", "cores", "most", "slots"),
    [
        ("local[4]", None, None, None, 2),
        ("local[1]", None, None, None, 1),
        ("local-cluster[2,3,1024]", None, None, None, 2),
        ("spark://master:7077", None, None, 12, 6),
        ("yarn", 3, 3, None, 3),
        ("yarn", 3, None, None, 3),
    ],
)
def test_tasks_that_take_two_cores_each(
    master: str, executors: int | None, cores: int | None, most: int | None, slots: int
) -> None:
    assert task_slots(master, executors, cores, most, of_task=2) == slots


def session(**conf: str) -> Any:
    settings = {name.replace("_", "."): value for name, value in conf.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: settings.get(name, default)))


def pipeline_with(tmp_path: Path, slots: int | None) -> Pipeline:
    configuration = {"partitionParallelism": slots} if slots else {}
    return make_pipeline(tmp_path, "a:1", "b:1", ["t"], configuration=configuration)


@pytest.mark.parametrize(
    ("conf", "wanted", "cores"),
    [
        ({"spark_master": "local[4]"}, None, 4),
        ({"spark_master": "local[4]"}, 4, 4),
        ({"spark_master": "yarn", "spark_executor_instances": "3", "spark_executor_cores": "2"}, 6, 6),
        ({"spark_master": "yarn", "spark_dynamicAllocation_enabled": "true", "spark_executor_instances": "1"}, 5, 5),
        (
            {
                "spark_master": "yarn",
                "spark_dynamicAllocation_enabled": "true",
                "spark_dynamicAllocation_maxExecutors": "3",
            },
            None,
            3,
        ),
        ({}, 5, 5),  # a cluster that grows by itself takes what is asked for
        ({}, None, 1),
    ],
)
def test_free_cores(tmp_path: Path, conf: dict[str, str], wanted: int | None, cores: int) -> None:
    """The number of cores for slots, by the session's settings and by what the pipeline file asks for."""
    assert free_cores(pipeline_with(tmp_path, wanted), session(**conf)) == cores


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"configuration": {"partitionParallelism": 5}}, r"configuration\.partitionParallelism is 5, but Spark"),
        ({"spark": {"slots": 5}}, r"spark\.slots is 5, but Spark"),
    ],
)
def test_more_slots_than_cores_are_refused_with_both_numbers(
    tmp_path: Path, sections: dict[str, Any], message: str
) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], **sections)
    with pytest.raises(Refused, match=message + r" \(local\[4\]\) runs only 4 tasks"):
        free_cores(pipeline, session(spark_master="local[4]"))
