"""Fixtures that all tests share: the two real Kafka clusters."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from k2k_assets.replication.slot import slot
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support import kafka
from k2k_assets_tests.support.order import FilesAndFolders, long_files_first

# A runner in the background may ignore the signals of a terminal, and ignoring is inherited: the processes that tests
# start would be deaf to what the tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)

# The tests are not installed: the processes that they start, workers of Spark among them, find them here.
_ROOT = str(Path(__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join([_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])

# Sparks of tests live for seconds: compiling for the long run costs more than it gives.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# And so does compiling each query, for a handful of rows.
_QUERIES = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{_JAVA} {_QUERIES}")

# How long an example takes says something about the machine, nothing about the property. Test modules, which take these
# settings when they are imported, are so after this; `--hypothesis-profile` still names another.
settings.register_profile(
    "k2k",
    settings.default,  # what hypothesis has chosen for where it runs, otherwise
    deadline=None,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.too_slow],
)
settings.load_profile("k2k")


# Slots that run in threads of a test would look through all of pytest, Dagster and Spark for garbage, twice a session.
slot.quiet_garbage_collection = nullcontext  # type: ignore[assignment]

# The pairs of clusters that run.
_started: list[KafkaSandbox] = []


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndFolders | None:
    """Instead of `--dist loadfile`."""
    return FilesAndFolders(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the files, tests of one file stay as they are; then the garbage collector leaves alone what there is."""
    items[:] = long_files_first(items)
    gc.freeze()  # a third of a test's processor time would be spent looking at what was imported


@pytest.fixture(autouse=True, scope="session")
def _home_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What commands remember does not go into the home of who runs the tests; the processes they start inherit it."""
    os.environ["K2K_HOME"] = str(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def clusters() -> Iterator[KafkaSandbox]:
    """A real source and a real target cluster, started once for the whole session.

    A test may kill, stop or freeze a broker: what it leaves down is started again after it.
    """
    with KafkaSandbox() as sandbox:
        _started.append(sandbox)
        yield sandbox
        _started.remove(sandbox)


@pytest.fixture(scope="session")
def secure_clusters() -> Iterator[KafkaSandbox]:
    """Two more, secured: TLS with SCRAM or client certificates, and ACLs. Started for the first test that asks.

    Tests act as the administrator by the addresses `source.mtls_servers` and `target.mtls_servers`; see
    `k2k_assets_tests.support.secure` for users and ACLs. The folder `permissions` shares one pair; files elsewhere may
    each cost one.
    """
    with KafkaSandbox(secure=True) as sandbox:
        for broker in (sandbox.source, sandbox.target):
            kafka.use(broker.admin_properties)
        _started.append(sandbox)
        yield sandbox
        _started.remove(sandbox)


@pytest.fixture(autouse=True, scope="module")
def _topics_go_with_their_file() -> Iterator[None]:
    """Each question about all topics would otherwise cost more from file to file: to brokers and to clients."""
    yield
    for sandbox in _started:
        for broker in (sandbox.source, sandbox.target):
            kafka.delete_all_topics(broker.admin_properties["bootstrap.servers"])


@pytest.fixture(autouse=True)
def _brokers_up_again() -> Iterator[None]:
    yield
    for sandbox in _started:
        for broker in (sandbox.source, sandbox.target):
            broker.resume()
            broker.start()
