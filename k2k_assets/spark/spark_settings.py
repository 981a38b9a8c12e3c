"""The Spark settings of a pipeline. Nothing of pyspark is imported here."""

from __future__ import annotations

import json
import os
import sys

from k2k_assets.core.digest import digest
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark.java_process import LOG4J_FLAG, OPTIONS_VARIABLE, is_local
from k2k_assets.spark.ready_daemon import MODULE

# Says which settings a session was made with; a session without it is somebody else's and is used as it is.
FINGERPRINT = "spark.k2k.settings"

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.pyspark.python": sys.executable,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Topic `2024` is no number: Parquet directories are not to be guessed at.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # The bulk jobs are small; the default of 200 costs seconds on two cores.
    "spark.sql.shuffle.partitions": "8",
}

# A copy task that Spark runs twice would fence itself; retries belong above Spark, where the commit log is read.
_REQUIRED = {"spark.speculation": "false", "spark.task.maxFailures": "1"}


def spark_conf(pipeline: Pipeline) -> dict[str, str]:
    """All Spark settings of a pipeline: our defaults, its `spark.config`, and what is not negotiable.

    Args:
        pipeline: Its `spark.remote` (a Connect URL) wins over `spark.master`.
    """
    spark = pipeline.spark
    if spark.remote:
        # All other settings are the server's own; trying to set them would only be answered with warnings.
        of_sessions = {name: value for name, value in _DEFAULTS.items() if name.startswith("spark.sql.")}
        conf = {**of_sessions, **spark.config, "spark.remote": spark.remote}
    else:
        own = {"spark.master": spark.master}
        # Workers are forked from a process that has imported all they need. On a cluster Spark's own is used: where our
        # package is missing it can say so.
        daemon = {"spark.python.daemon.module": MODULE} if is_local(own) else {}
        conf = {**_defaults(), **daemon, **spark.config, **own, **_REQUIRED}
    conf[FINGERPRINT] = digest(json.dumps(conf, sort_keys=True))
    return conf if spark.remote else {"spark.app.name": f"k2k {pipeline.name}", **conf}


def _defaults() -> dict[str, str]:
    """Without a log level where the JVM is given a configuration of Log4j, which knows better."""
    has_own = LOG4J_FLAG in os.environ.get(OPTIONS_VARIABLE, "")
    return {name: value for name, value in _DEFAULTS.items() if not (has_own and name == "spark.log.level")}
