"""The Spark session of a pipeline: how it is made for Dagster, the CLI and tests alike.

Not responsible for what runs on it. Spark lets a second session with other static settings silently be the first; that
is handled here, so that two pipelines in one run get what they ask for. Dagster is not imported here.
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

from k2k_assets.core.errors import K2KError, message_lines
from k2k_assets.java.find import find_java
from k2k_assets.pipeline import Pipeline
from k2k_assets.spark.connect_server import CONNECT_SCHEME, await_connect_server
from k2k_assets.spark.java_process import PATIENT_FLAGS, JavaProcess, add_options, prepare_environment, start_java
from k2k_assets.spark.spark_command import archive_flags
from k2k_assets.spark.spark_settings import FINGERPRINT, spark_conf

# What Spark raises that does not start, or whose Java process or server is gone.
LOST = (Py4JError, PySparkException, OSError)


def build_session(pipeline: Pipeline) -> SparkSession:
    """The session of a pipeline: the one that this process has when its settings are the same, else a new one.

    Raises:
        K2KError: There is no Java that Spark runs on.
        LOST: Spark did not start; `not_started` says it in words.
    """
    return start_session(spark_conf(pipeline))


def start_session(conf: Mapping[str, str]) -> SparkSession:
    """The session with some settings: the one that this process has when they are the same, else a new one.

    Raises:
        K2KError: There is no Java that Spark runs on.
        LOST: Spark did not start; `not_started` says it in words.
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
    """Stops the session that this process has, if it has one."""
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


def start_context(conf: Mapping[str, str], java: JavaProcess | None, flags: Sequence[str]) -> SparkContext:
    """Spark without a session, for who runs no queries: half the time and a third of the processor time.

    The one that this process has is used when its settings are the same; sessions that are made later are on top of it.

    Args:
        conf: Its settings.
        java: The process to use, if this process has none.
        flags: For the Java process that is started otherwise.

    Raises:
        K2KError: There is no Java that Spark runs on.
        LOST: Spark did not start; `not_started` says it in words.
    """
    _stop_spark_of_other_settings(conf)
    _ensure_java(conf, java, flags)
    with _signal_handlers_kept():
        return SparkContext.getOrCreate(SparkConf().setAll(list(conf.items())))


def _ensure_java(conf: Mapping[str, str], java: JavaProcess | None, flags: Sequence[str]) -> None:
    """Starts the Java process of this process, if there is none; what spark-submit has to start, pyspark starts."""
    prepare_environment(conf)
    if SparkContext._gateway is not None:
        return
    if process := java or start_java(conf, flags):
        process.connect()
    else:
        program = find_java()
        add_options([*archive_flags(program), *flags])


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
    lines = message_lines(error)
    telling = (line.removeprefix(": ") for line in lines if line.startswith(": "))
    details = (line.partition("=")[2].strip(' "') for line in lines if line.startswith("details ="))
    return next(telling, next(details, lines[0]))


def _stop_spark_of_other_settings(conf: Mapping[str, str]) -> None:
    context = SparkContext._active_spark_context
    made_with = context.getConf().get(FINGERPRINT) if context else None
    if context and made_with and made_with != conf[FINGERPRINT]:
        (SparkSession.getActiveSession() or context).stop()


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
