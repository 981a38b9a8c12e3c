"""The settings that docs/spark.md shows for each kind of cluster, as a pipeline file and as Spark gets them."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
import yaml

from k2k_assets.pipeline import load_pipeline
from k2k_assets.spark.executors import is_counted
from k2k_assets.spark.spark_command import spark_home
from k2k_assets.spark.spark_settings import spark_conf
from k2k_assets.spark.task_slots import cores_with
from k2k_assets_tests.support.copies.pipelines import write_pipeline

_PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
_OURS = {"spark.slots", "spark.config", "spark.example.com"}


@pytest.mark.parametrize(
    ("heading", "address", "counted", "cores"),
    [
        ("Spark", "spark://spark.example.com:7077", True, 8),
        ("Standalone", "spark://spark.example.com:7077", True, 8),
        ("Kubernetes", "k8s://https://kubernetes.default.svc", True, 8),
        ("YARN", "yarn", True, 8),
        ("Spark Connect", "sc://spark.example.com:15002", False, 1),
    ],
)
def test_the_settings_of_each_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heading: str, address: str, counted: bool, cores: int
) -> None:
    """They load, reach Spark, and tell the number of slots that is expected."""
    monkeypatch.setenv("POD_NAME", "k2k-0")
    sections = re.split(r"^#+ ", _PAGE.read_text(), flags=re.MULTILINE)
    section = next(each for each in sections if each.splitlines()[:1] == [heading])
    shown = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert shown
    pipeline = load_pipeline([write_pipeline(tmp_path, "a:1", "b:1", ["t"], **yaml.safe_load(shown[1]))])
    conf = spark_conf(pipeline)
    assert conf.get("spark.remote", conf.get("spark.master")) == address
    assert is_counted(conf.get) is counted
    assert cores_with(pipeline, conf.get) == cores


def test_each_setting_that_the_page_names_is_one_of_this_spark() -> None:
    """Spark takes settings that it does not know without a word; those that it knows are in its classes by name."""
    named = set(re.findall(r"\bspark(?:\.[a-zA-Z]+){1,5}\b(?!\.?\*|\.py)", _PAGE.read_text())) - _OURS
    assert {"spark.kubernetes.driver.pod.name", "spark.yarn.dist.archives", "spark.executor.memoryOverhead"} <= named
    kinds = ("core", "kubernetes", "yarn", "common-utils", "network-common", "connect", "sql-api")
    jars = [jar for kind in kinds for jar in (spark_home() / "jars").glob(f"spark-{kind}_*.jar")]
    assert len(jars) >= 5
    unknown = {name.replace(".NAME", "."): name for name in named}
    for jar in jars:
        with zipfile.ZipFile(jar) as classes:
            for each in classes.namelist():
                if each.endswith(".class") and unknown:
                    content = classes.read(each)
                    unknown = {key: name for key, name in unknown.items() if key.encode() not in content}
    assert sorted(unknown.values()) == []
