"""The Spark settings of a pipeline. Does not import pyspark."""

from __future__ import annotations

import json
import os
import sys

from k2k_assets.core.cores import usable_cores
from k2k_assets.core.digest import digest
from k2k_assets.core.json_logs import FORMAT_VARIABLE, JSON, is_json
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark.java_process import LOG4J_FLAG, OPTIONS_VARIABLE, is_local
from k2k_assets.spark.ready_daemon import MODULE

# Fingerprint of the settings that a session was made with; a session without it is not ours and is used as it is.
FINGERPRINT = "spark.k2k.settings"

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.pyspark.python": sys.executable,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark must not guess types from the names of Parquet directories: the topic `2024` is no number.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # The bulk jobs are small; the default of 200 costs seconds on two cores.
    "spark.sql.shuffle.partitions": "8",
}

# A copy task that Spark runs twice would fence itself; retries belong above Spark, where the commit log is read.
_REQUIRED = {"spark.speculation": "false", "spark.task.maxFailures": "1"}


def spark_conf(pipeline: Pipeline) -> dict[str, str]:
    """All Spark settings of a pipeline: our defaults, its `spark.config`, and our fixed settings, which win.

    Args:
        pipeline: The pipeline; its `spark.remote` (a Connect URL) wins over `spark.master`.
    """
    spark = pipeline.spark
    if spark.remote:
        # The server has its own settings; setting others would only cause warnings.
        of_sessions = {name: value for name, value in _DEFAULTS.items() if name.startswith("spark.sql.")}
        conf = {**of_sessions, **spark.config, "spark.remote": spark.remote}
    else:
        # Slots are planned by this number: Java, which counts by itself, must not run fewer of them.
        own = {"spark.master": f"local[{usable_cores()}]" if spark.master == "local[*]" else spark.master}
        # Workers are forked from our daemon, which has imported everything. On a cluster Spark's own daemon is used,
        # which can report that our package is missing.
        daemon = {"spark.python.daemon.module": MODULE} if is_local(own) else {}
        # Workers on other machines do not inherit it; those on this one do, and the setting would make a start slow.
        lines = {f"spark.executorEnv.{FORMAT_VARIABLE}": JSON} if is_json() and not is_local(own) else {}
        conf = {**_defaults(), **daemon, **lines, **spark.config, **own, **_REQUIRED}
    conf[FINGERPRINT] = digest(json.dumps(conf, sort_keys=True))
    return conf if spark.remote else {"spark.app.name": f"k2k {pipeline.name}", **conf}


def _defaults() -> dict[str, str]:
    """Our defaults, without a log level if the user gives the JVM a Log4j configuration, which sets its own."""
    has_own = LOG4J_FLAG in os.environ.get(OPTIONS_VARIABLE, "")
    return {name: value for name, value in _DEFAULTS.items() if not (has_own and name == "spark.log.level")}
