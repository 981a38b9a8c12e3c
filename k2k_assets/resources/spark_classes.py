"""`python -m k2k_assets.resources.spark_classes`: keeps an archive of the classes that Spark loads, as a part of setup.

With it a start of Spark costs half the processor time. It lies beside Spark's jars, so that it goes when they go.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from k2k_assets.errors import K2KError
from k2k_assets.sandbox.class_archive import archive_of, flags_with, make_archive
from k2k_assets.sandbox.java import find_java

_OPTIONS = "SPARK_SUBMIT_OPTS"
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SECONDS = 300.0
_INSIDE = "--inside"


def use_archive(java: Path) -> None:
    """Lets JVMs that Spark starts from now on use the archive, if it is there."""
    options = os.environ.get(_OPTIONS, "")
    new = [flag for flag in flags_with(_archive(java)) if flag not in options]
    if new:
        os.environ[_OPTIONS] = " ".join([options, *new]).strip()


def main() -> None:
    """Makes the archive, if it is not there yet; whatever stands against that does not matter."""
    with contextlib.suppress(K2KError, OSError, subprocess.SubprocessError):
        make_archive(_archive(find_java()), _start_and_stop)


def _archive(java: Path) -> Path:
    jars = Path(pyspark.__file__).with_name("jars")
    return archive_of(jars.with_name(f"{jars.name}-{pyspark.__version__}"), java)


def _start_and_stop(flags: list[str]) -> None:
    options = " ".join([*_QUICK, *flags])
    environment = {**os.environ, _OPTIONS: options, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "k2k_assets.resources.spark_classes", _INSIDE]
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=_SECONDS)


def _do_what_is_usual() -> None:
    """What a copy and its checks need of Spark: Arrow workers, Parquet, a shuffle."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as directory:
        numbers = spark.range(10).mapInArrow(lambda batches: batches, "id long")
        numbers.write.parquet(f"{directory}/numbers")
        spark.read.parquet(f"{directory}/numbers").groupBy("id").count().toPandas()
    process = SparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait(_SECONDS)  # it writes the archive when it ends


if __name__ == "__main__":
    _do_what_is_usual() if _INSIDE in sys.argv else main()
