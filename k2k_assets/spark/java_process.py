"""Starts Spark's Java process directly and early, so that its start overlaps imports and requests to clusters.

`bin/spark-submit` is three shell scripts, a Python and a Java program that find out how to call Java. The answer is the
same each time as long as pyspark's defaults apply, so `make setup` stores it. If any setting is present that
spark-submit would consider, spark-submit does the start.

pyspark is imported only when there is a process to connect to.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from k2k_assets.core.errors import InvalidVariable
from k2k_assets.spark.owned_directory import OwnedDirectory
from k2k_assets.spark.ready_daemon import MODULE, VARIABLE, ReadyDaemon, ignore_interrupts
from k2k_assets.spark.spark_command import archive_flags, java_program, remembered_flags, spark_home

OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"
LOG4J_FLAG = "-Dlog4j2.configurationFile"

# For a process that only runs slots: hardly any of its code runs often enough to pay for the better compiler.
QUICK_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")

# For a process that also plans queries and reads Parquet: the better compiler for hot code, not for start-up code.
PATIENT_FLAGS = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
    "-XX:-UsePerfData",
)

# The class that SparkSubmit itself runs for pyspark.
_MAIN = "org.apache.spark.api.python.PythonGatewayServer"
# Environment variables of these families change what spark-submit does, except those that we or pyspark set.
_FAMILIES = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
_HARMLESS = {
    OPTIONS_VARIABLE,
    "SPARK_LOCAL_IP",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
}
# Settings that only the session reads, so that a process can be used that was started without them.
_OF_SESSIONS = (
    "spark.app.name",
    "spark.default.parallelism",
    "spark.eventLog.",
    "spark.k2k.",
    "spark.local.dir",
    "spark.log.level",
    "spark.master",
    "spark.memory.",
    "spark.pyspark.python",
    "spark.python.",
    "spark.shuffle.",
    "spark.speculation",
    "spark.sql.",
    "spark.task.",
    "spark.ui.",
)
_POLL_SECONDS = 0.01
# Longest wait for another thread that is just starting a process.
_BIRTH_SECONDS = 1.0
_started: list[subprocess.Popen[bytes]] = []
_births: list[object] = []


class JavaProcess:
    """A Java process that waits for pyspark to connect.

    Args:
        command: Its command line.
        workers: The daemon from which its Python workers will be forked.

    Attributes:
        process: The process.
        was_ended: Whether this class ended it, so that it need not be replaced.
    """

    def __init__(self, command: Sequence[str], workers: ReadyDaemon | None = None) -> None:
        self.was_ended = False
        self._workers = workers
        self._directory = OwnedDirectory("k2k-gateway-")
        self._answer = self._directory.path / "connection"
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_CONNECT_MODE": "0",
            "PYTHONHASHSEED": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer),
            **({VARIABLE: workers.address} if workers else {}),
        }
        # Java ends when its standard input ends, unless its directory is removed before it has read either.
        _births.append(self)
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, env=environment, preexec_fn=ignore_interrupts
            )
            _started.append(self.process)
        except OSError:
            self._directory.remove()
            raise
        finally:
            _births.remove(self)

    def connect(self) -> None:
        """Makes it pyspark's Java process in this Python process.

        Raises:
            PySparkRuntimeError: The Java process has ended.
        """
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway

        port, secret = self._await_answer()
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
        try:
            gateway = launch_gateway()
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc, gateway.workers = self.process, self._workers  # both live as long as the gateway
        SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm

    def end(self) -> None:
        """Ends the process at once; does nothing if it has ended."""
        self.was_ended = True
        self._workers = None
        self.process.kill()
        self.process.wait()
        if self.process.stdin:
            with suppress(OSError):
                self.process.stdin.close()
        self._directory.remove()

    def _await_answer(self) -> tuple[int, str]:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.serializers import UTF8Deserializer, read_int

        try:
            while not self._answer.is_file():
                if self.process.poll() is not None:
                    raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
                time.sleep(_POLL_SECONDS)
            with self._answer.open("rb") as answer:
                return read_int(answer), UTF8Deserializer().loads(answer)
        finally:
            self._directory.remove()


def has_java() -> bool:
    """Whether pyspark has a Java process in this Python process already; does not import pyspark."""
    pyspark = sys.modules.get("pyspark")
    return getattr(getattr(pyspark, "SparkContext", None), "_gateway", None) is not None


def kill_java() -> None:
    """Kills the Java processes of this Python process, so that they print nothing about its end, and none is left.

    It waits only a moment, for another thread that is just starting one.
    """
    end = time.monotonic() + _BIRTH_SECONDS
    while _births and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    pyspark = sys.modules.get("pyspark")
    gateway = getattr(getattr(pyspark, "SparkContext", None), "_gateway", None)
    for process in [*_started, getattr(gateway, "proc", None)]:
        if process is not None:
            with suppress(OSError):
                process.kill()


def start_java(conf: Mapping[str, str], flags: Sequence[str] = ()) -> JavaProcess | None:
    """Starts the Java process for a session directly; None if spark-submit has to do it.

    Args:
        conf: Settings of the session.
        flags: Further flags for Java.

    Raises:
        InvalidVariable: The flags in `SPARK_SUBMIT_OPTS` cannot be parsed.
    """
    java = java_program()
    if java is None or not _is_plain(conf) or (remembered := remembered_flags(java)) is None:
        return None
    prepare_environment(conf)
    given = _given()
    own = [*archive_flags(java), *_not_contrary(flags, given)]
    try:
        return JavaProcess([str(java), *remembered, *own, *given, _MAIN], _ready_daemon(conf))
    except OSError:
        return None


def add_options(flags: Sequence[str]) -> None:
    """Adds Java flags for processes that spark-submit starts from now on.

    Args:
        flags: The flags; those that are set already, or contradict a set one, are left out.

    Raises:
        InvalidVariable: The flags in `SPARK_SUBMIT_OPTS` cannot be parsed.
    """
    given = _given()
    new = [flag for flag in _not_contrary(flags, given) if flag not in given]
    if new:
        os.environ[OPTIONS_VARIABLE] = " ".join([os.environ.get(OPTIONS_VARIABLE, ""), *new]).strip()


def prepare_environment(conf: Mapping[str, str]) -> None:
    """Sets the environment variables that Java and the workers read, unless the user has set them."""
    # Only spark-submit reads the setting; without the variable, workers run whatever `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python", sys.executable))
    if "local" in conf.get("spark.master", ""):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def is_local_master(master: str) -> bool:
    """Whether a master stands for local mode; that of `local-cluster` does not."""
    return master == "local" or master.startswith("local[")


def is_local(conf: Mapping[str, str]) -> bool:
    """Whether Spark runs in local mode: in one Java process and its workers."""
    master = conf.get("spark.master", "")
    return "spark.remote" not in conf and is_local_master(master)


def _is_plain(conf: Mapping[str, str]) -> bool:
    """Whether no setting is present that spark-submit would consider."""
    if not is_local(conf) or not all(name.startswith(_OF_SESSIONS) for name in conf):
        return False
    if any(name.startswith(_FAMILIES) and name not in _HARMLESS for name in os.environ):
        return False
    return sys.platform != "win32" and not (spark_home() / "conf").exists()


def _given() -> list[str]:
    """The flags that the user has set."""
    try:
        return shlex.split(os.environ.get(OPTIONS_VARIABLE, ""))
    except ValueError as error:
        raise InvalidVariable(f"the environment variable {OPTIONS_VARIABLE} cannot be read: {error}") from None


def _not_contrary(flags: Sequence[str], given: Sequence[str]) -> list[str]:
    """Leaves out a choice of garbage collector or compiler if the user has made one: Java refuses two."""
    chosen = [mark for mark in ("GC", "TieredStopAtLevel") if any(mark in flag for flag in given)]
    return [flag for flag in flags if not any(mark in flag for mark in chosen)]


def _ready_daemon(conf: Mapping[str, str]) -> ReadyDaemon | None:
    """The workers' daemon, if Spark will use it, and with the Python of this process; else None."""
    if conf.get("spark.python.daemon.module") != MODULE or os.environ["PYSPARK_PYTHON"] != sys.executable:
        return None
    try:
        return ReadyDaemon()
    except OSError:  # for example, the name of the temporary directory is too long; then Spark starts its own daemon
        return None
