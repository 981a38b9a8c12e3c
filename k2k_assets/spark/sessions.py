"""Makes the Spark session of a pipeline, for Dagster, the CLI and tests alike. Does not import Dagster.

If a process asks Spark for a second session with other static settings, Spark silently returns the first one. This
module stops the first one instead, so that each pipeline in a run gets its own settings.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from k2k_assets.core.errors import K2KError
from k2k_assets.java.find import find_java
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark.connect_server import CONNECT_SCHEME, await_connect_server
from k2k_assets.spark.error_cause import error_cause
from k2k_assets.spark.java_process import PATIENT_FLAGS, JavaProcess, add_options, prepare_environment, start_java
from k2k_assets.spark.spark_command import archive_flags
from k2k_assets.spark.spark_settings import FINGERPRINT, spark_conf

# Errors of a Spark that does not start, or whose Java process or server is gone.
LOST = (Py4JError, PySparkException, OSError)


def build_session(pipeline: Pipeline) -> SparkSession:
    """Returns the session of a pipeline: the present one if its settings are the same, else a new one.

    Raises:
        K2KError: There is no Java that Spark runs on.
        LOST: Spark did not start; `not_started` makes the error for the user.
    """
    return start_session(spark_conf(pipeline))


def start_session(conf: Mapping[str, str]) -> SparkSession:
    """Returns a session with some settings: the present one if its settings are the same, else a new one.

    Raises:
        K2KError: There is no Java that Spark runs on.
        LOST: Spark did not start; `not_started` makes the error for the user.
    """
    if "spark.remote" not in conf:
        _stop_spark_of_other_settings(conf)
    if (remote := str(conf.get("spark.remote", ""))).startswith(CONNECT_SCHEME):
        await_connect_server(remote)
    if "spark.remote" not in conf:
        _ensure_java(conf, None, PATIENT_FLAGS)
    builder = SparkSession.Builder()
    for name, value in conf.items():
        builder = builder.config(name, value)
    with _signal_handlers_kept():
        return builder.getOrCreate()


def stop_active_session() -> None:
    """Stops the session of this process, if there is one."""
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


def start_context(conf: Mapping[str, str], java: JavaProcess | None, flags: Sequence[str]) -> SparkContext:
    """Starts Spark without a session, for work without queries: half the time and a third of the processor time.

    The present context is used if its settings are the same. Sessions that are made later use this context.

    Args:
        conf: The settings.
        java: The Java process to use, if pyspark has none yet.
        flags: Flags for the Java process that is started otherwise.

    Raises:
        K2KError: There is no Java that Spark runs on.
        LOST: Spark did not start; `not_started` makes the error for the user.
    """
    _stop_spark_of_other_settings(conf)
    _ensure_java(conf, java, flags)
    with _signal_handlers_kept():
        return SparkContext.getOrCreate(SparkConf().setAll(list(conf.items())))


def _ensure_java(conf: Mapping[str, str], java: JavaProcess | None, flags: Sequence[str]) -> None:
    """Starts pyspark's Java process if there is none, unless spark-submit has to do it; then pyspark does that."""
    prepare_environment(conf)
    if SparkContext._gateway is not None:
        return
    if process := java or start_java(conf, flags):
        process.connect()
    else:
        program = find_java()
        add_options([*archive_flags(program), *flags])


def not_started(conf: Mapping[str, Any], error: Exception) -> K2KError:
    """Makes the one-line error for a session that did not start.

    Args:
        conf: Settings of the session; a Spark Connect URL is named without its parameters, which may hold a token.
        error: One of `LOST`.
    """
    cause = error_cause(error)
    if not (remote := conf.get("spark.remote")):
        return K2KError(f"Spark did not start with spark.master {conf.get('spark.master')}: {cause}")
    server = re.split(r"[/;?]", remote.partition("://")[2] or remote)[0].rpartition("@")[2]
    # Some of Spark's errors quote the URL. Short parameters are not removed: they may be part of any word.
    secrets = [remote, *re.findall(r"=([^;]{4,})", remote), *re.findall(r"//([^/;@]{4,})@", remote)]
    for secret in secrets:
        cause = cause.replace(secret, "...")
    return K2KError(f"Spark did not start on the server {server} (spark.remote): {cause}")


def _stop_spark_of_other_settings(conf: Mapping[str, str]) -> None:
    context = SparkContext._active_spark_context
    made_with = context.getConf().get(FINGERPRINT) if context else None
    if context and made_with and made_with != conf[FINGERPRINT]:
        (SparkSession.getActiveSession() or context).stop()


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Keeps our signal handlers: pyspark's handler of SIGINT kills all tasks, ours ends them at a commit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
