"""The Spark session of a pipeline: its settings, and how it is made for Dagster, the CLI and tests alike.

Not responsible for what runs on it. `dagster-pyspark` never stops a session and lets a second one with other
static settings silently be the first; both are handled here, so that two pipelines in one run get what they ask for.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dagster_pyspark import LazyPySparkResource
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from k2k_assets.errors import K2KError, words_of
from k2k_assets.pipeline import Pipeline
from k2k_assets.resources.connect_server import CONNECT_SCHEME, await_connect_server
from k2k_assets.resources.spark_classes import use_archive
from k2k_assets.sandbox.java import find_java

# What Spark raises that does not start, or whose Java process or server is gone.
LOST = (Py4JError, PySparkException, OSError)

# Says which settings a session was made with; a session without it is somebody else's and is used as it is.
_FINGERPRINT = "spark.k2k.settings"

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
        conf = {**_DEFAULTS, **spark.config, "spark.master": spark.master, **_REQUIRED}
    conf[_FINGERPRINT] = hashlib.sha256(json.dumps(conf, sort_keys=True).encode()).hexdigest()[:16]
    return conf if spark.remote else {"spark.app.name": f"k2k {pipeline.name}", **conf}


def build_session(pipeline: Pipeline) -> SparkSession:
    """The session of a pipeline: the one that this process has when its settings are the same, else a new one.

    Raises:
        K2KError: There is no Java that Spark runs on.
        LOST: Spark did not start; `not_started` says it in words.
    """
    return PipelineSparkResource(spark_config=spark_conf(pipeline)).started()


def not_started(conf: Mapping[str, Any], error: Exception) -> K2KError:
    """Why there is no session, in one line.

    Args:
        conf: Of the session; a Spark Connect URL is named without its parameters, which hold a token.
        error: One of `LOST`.
    """
    cause = _cause(error)
    if not (remote := conf.get("spark.remote")):
        return K2KError(f"Spark did not start with spark.master {conf.get('spark.master')}: {cause}")
    server = re.split(r"[/;?]", remote.partition("://")[2] or remote)[0].rpartition("@")[2]
    # Some of its errors quote the URL; what is shorter than a token may be part of any word.
    secrets = [remote, *re.findall(r"=([^;]{4,})", remote), *re.findall(r"//([^/;@]{4,})@", remote)]
    for secret in secrets:
        cause = cause.replace(secret, "...")
    return K2KError(f"Spark did not start on the server {server} (spark.remote): {cause}")


def _cause(error: Exception) -> str:
    """The line that tells why: of an exception in Java the one that names it, of a failed call its details."""
    lines = words_of(error)
    telling = (line.removeprefix(": ") for line in lines if line.startswith(": "))
    details = (line.partition("=")[2].strip(' "') for line in lines if line.startswith("details ="))
    return next(telling, next(details, lines[0]))


class PipelineSparkResource(LazyPySparkResource):
    """dagster-pyspark's lazy session: no JVM before the first use, and the right one for each pipeline."""

    def session(self) -> SparkSession:
        """The session, made at the first call.

        Raises:
            K2KError: There is no Java that Spark runs on, or Spark does not start.
        """
        try:
            return self.started()
        except LOST as error:
            raise not_started(self.spark_config, error) from None

    def started(self) -> SparkSession:
        """As `session`, for those who try again: what Spark raises comes as it is."""
        _stop_session_of_other_settings(self.spark_config)
        if str(self.spark_config.get("spark.remote", "")).startswith(CONNECT_SCHEME):
            await_connect_server(self.spark_config["spark.remote"])
        if "spark.remote" not in self.spark_config and SparkSession.getActiveSession() is None:
            use_archive(find_java())
        self._spark_session = None  # it may have been stopped since; the builder hands out the living one
        # The setting alone is read by spark-submit only; workers would run whatever `python3` is on the PATH.
        if "spark.pyspark.python" in self.spark_config:
            os.environ.setdefault("PYSPARK_PYTHON", self.spark_config["spark.pyspark.python"])
        if "local" in str(self.spark_config.get("spark.master", "")):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        with _signal_handlers_kept():
            return self.spark_session


def _stop_session_of_other_settings(conf: dict[str, Any]) -> None:
    active = None if "spark.remote" in conf else SparkSession.getActiveSession()
    made_with = active.conf.get(_FINGERPRINT, None) if active else None
    if active and made_with and made_with != conf[_FINGERPRINT]:
        active.stop()


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """pyspark replaces the handler of SIGINT by one that kills all tasks; ours end them at a commit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
