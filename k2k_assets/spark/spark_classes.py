"""`python -m k2k_assets.spark.spark_classes`: stores the flags of Spark's Java process, and an archive of its classes.

This is a part of setup. With it, a start of Spark costs a fraction of the processor time. Both files lie beside Spark's
jars, so that they are removed with these.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from k2k_assets.core.errors import K2KError
from k2k_assets.java.class_archive import make_archive
from k2k_assets.java.find import find_java
from k2k_assets.spark.java_process import OPTIONS_VARIABLE, QUICK_FLAGS, start_java
from k2k_assets.spark.spark_command import archive, flags_file, spark_home

_SECONDS = 300.0
_INSIDE = "--inside"
_LAUNCHER = "org.apache.spark.launcher.Main"
_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
# Only Spark's machine learning uses this module; Java prints a warning in each process that gets the flag.
_UNUSED = {"--add-modules=jdk.incubator.vector"}
_CONF = {"spark.master": "local[2]", "spark.app.name": "classes", "spark.ui.enabled": "false"}


def main() -> None:
    """Makes the files that do not exist yet; ignores errors, because both are optional."""
    with contextlib.suppress(K2KError, OSError, ValueError, subprocess.SubprocessError):
        java = find_java()
        _remember_flags(java)
        make_archive(archive(java), _start_and_stop)


def _remember_flags(java: Path) -> None:
    """Asks Spark's launcher for the command line, as Spark's scripts do, and stores its flags."""
    file = flags_file(java)
    if file.is_file():
        return
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment = {**plain, "SPARK_HOME": str(spark_home()), "SPARK_SCALA_VERSION": "2.13"}
    asked = [str(java), "-cp", f"{spark_home() / 'jars'}/*", _LAUNCHER, _SUBMIT, "pyspark-shell"]
    said = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True, timeout=_SECONDS)
    command = said.stdout[said.stdout.index(str(java.name)) :].split("\0")
    flags = command[1 : command.index(_SUBMIT)]
    staging = file.with_name(f".making-{file.name}")
    staging.write_text(json.dumps([flag for flag in flags if flag not in _UNUSED], indent=1), encoding="utf-8")
    staging.rename(file)


def _start_and_stop(flags: list[str]) -> None:
    environment = {**os.environ, OPTIONS_VARIABLE: " ".join([*QUICK_FLAGS, *flags]), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "k2k_assets.spark.spark_classes", _INSIDE]
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=_SECONDS)


def _do_what_is_usual() -> None:
    """Runs the features of Spark that a copy and its checks use: workers with and without Arrow, Parquet, a shuffle."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if java := start_java(_CONF):
        java.connect()
    builder = SparkSession.Builder()
    for name, value in _CONF.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.parallelize([], 2).mapPartitions(lambda items: items).collect()
    with tempfile.TemporaryDirectory() as directory:
        numbers = spark.range(10).mapInArrow(lambda batches: batches, "id long")
        numbers.write.parquet(f"{directory}/numbers")
        spark.read.parquet(f"{directory}/numbers").groupBy("id").count().toPandas()
    assert SparkContext._gateway is not None
    process = SparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait(_SECONDS)  # Java writes the archive when it ends


if __name__ == "__main__":
    _do_what_is_usual() if _INSIDE in sys.argv else main()
