"""Fixtures that all tests share: the two real Kafka clusters, and two real schema registries."""

from __future__ import annotations

import gc
import logging
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
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.shared_clusters import shared_clusters
from k2k_assets_tests.support.copies.copying import Running
from k2k_assets_tests.support.copies.forms import copying_in_form
from k2k_assets_tests.support.suite.deselected import is_deselected
from k2k_assets_tests.support.suite.order import FilesAndFolders, by_files
from k2k_assets_tests.support.suite.properties import scaled
from k2k_assets_tests.support.suite.time_given import is_time_limited, skip_when_time_is_over

# What is imported stays: to look for garbage meanwhile would take a fifth of the time to collect tests.
gc.disable()

# A runner in the background may ignore the signals of a terminal, and ignoring is inherited: the processes that tests
# start would be deaf to what the tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)

# The tests are not installed; their processes, such as Spark's workers, find them here.
_ROOT = str(Path(__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join([_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])

# Spark sessions of tests live for seconds, so optimizing compilation costs more than it saves.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# Compiling each query also costs too much for a few rows.
_QUERIES = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
# Plans are written as text for a web page that nobody looks at, anew after each stage: a fifth of all.
_QUERIES += " -Dspark.sql.ui.explainMode=simple -Dspark.sql.maxPlanStringLength=0"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{_JAVA} {_QUERIES}")

# The time of an example depends on the machine, not on the property. Test modules, which read these
# settings when they are imported, are so after this; `--hypothesis-profile` still names another.
settings.register_profile(
    "k2k",
    settings.default,  # otherwise hypothesis's own settings for this environment
    deadline=None,
    max_examples=scaled(settings().max_examples),
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.too_slow],
)
settings.load_profile("k2k")


# Slots in threads of a test would collect garbage among all objects of pytest, Dagster and Spark, twice a session.
slot.quiet_garbage_collection = nullcontext  # type: ignore[assignment]

# Instances of Dagster that tests leave behind are collected in any thread. SQLite refuses to be closed in another one,
# and SQLAlchemy would log that among the words of whichever command a test runs just then.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL + 1)

# How long the product waits for brokers where it goes on without an answer.
_PATIENT = (
    "k2k_assets.status.waiting_records._SECONDS",
    "k2k_assets.translation.source_logs._SECONDS",
)

# The running pairs of clusters that belong to this process.
_started: list[KafkaSandbox] = []
# Files with a test whose clusters no other process uses.
_ALONE = pytest.StashKey[set[Path]]()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndFolders | None:
    """Instead of `--dist loadfile`."""
    return FilesAndFolders(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out what holds no test that is selected."""
    holds_tests = collection_path.is_dir() or collection_path.match("test_*.py")
    return (holds_tests and is_deselected(collection_path, config.option.markexpr)) or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Orders the files, tests of one file stay as they are; collects garbage from now on, not among what there is."""
    items[:] = by_files(items, is_time_limited())
    config.stash[_ALONE] = {item.path for item in items if item.get_closest_marker("own_clusters")}
    gc.freeze()  # garbage collection of imported objects would take a third of a test's processor time
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is made."""
    skip_when_time_is_over(item)


@pytest.fixture(autouse=True, scope="session")
def _home_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What commands remember does not go into the home of who runs the tests; the processes they start inherit it."""
    os.environ["K2K_HOME"] = str(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """Commands that run inside a test set the level of our log for their process."""
    ours = logging.getLogger("k2k")
    before = ours.level
    yield
    ours.setLevel(before)


@pytest.fixture(autouse=True)
def _busy_brokers(request: pytest.FixtureRequest) -> None:
    """A broker that has much to do is not one that does not answer. Where a test wants less, it says so itself."""
    if request.node.get_closest_marker("integration"):
        monkeypatch = request.getfixturevalue("monkeypatch")
        for name in _PATIENT:
            monkeypatch.setattr(name, 60.0)


@pytest.fixture(autouse=True)
def _form(request: pytest.FixtureRequest) -> Iterator[None]:
    with copying_in_form(by_librdkafka=request.node.get_closest_marker("librdkafka") is not None):
        yield


@pytest.fixture(autouse=True)
def _no_copy_outlives_its_test() -> Iterator[None]:
    """It would cost processor time in all tests behind it, and complain of topics that are gone."""
    yield
    Running.stop_all()


@pytest.fixture(scope="session")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SandboxRegistry, SandboxRegistry]]:
    """Two real schema registries, of the source and of the target, whose ids differ."""
    folder = tmp_path_factory.mktemp("registries")
    source = SandboxRegistry("source", folder / "source", temporary=True)
    target = SandboxRegistry("target", folder / "target", first_id=40, temporary=True)
    try:
        source.start()
        target.start()
        yield source, target
    finally:
        source.kill()
        target.kill()


@pytest.fixture(scope="module")
def clusters(request: pytest.FixtureRequest) -> Iterator[KafkaSandbox]:
    """A real source and a real target cluster, which all processes that run tests share.

    A file with a test that is marked `own_clusters` gets a pair that nobody else uses: a test may kill, stop or freeze
    a broker there, and what it leaves down is started again after it. A lone process has no other pair.
    """
    shared = "PYTEST_XDIST_WORKER" in os.environ and request.path not in request.config.stash[_ALONE]
    found: KafkaSandbox = request.getfixturevalue("_shared_clusters" if shared else "_own_clusters")
    if shared:
        _stop(request.getfixturevalue("_own_clusters"))  # the files that need them follow each other
    else:
        _start(found)
    yield found
    _delete_topics(found)


@pytest.fixture(scope="module")
def secure_clusters(_secure_clusters: KafkaSandbox) -> Iterator[KafkaSandbox]:
    """Two more, secured: TLS with SCRAM or client certificates, and ACLs. Started for the first test that asks.

    Tests act as the administrator by the addresses `source.mtls_servers` and `target.mtls_servers`; see
    `k2k_assets_tests.support.brokers.secure` for users and ACLs. The folder `permissions` shares one pair; files
    elsewhere may each cost one.
    """
    yield _secure_clusters
    _delete_topics(_secure_clusters)


def _delete_topics(sandbox: KafkaSandbox) -> None:
    """Each question about all topics would otherwise cost more from file to file: to brokers and to clients."""
    for broker in (sandbox.source, sandbox.target):
        kafka.delete_own_topics(broker.admin_properties["bootstrap.servers"])


@pytest.fixture(scope="session")
def _shared_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaSandbox]:
    with shared_clusters(tmp_path_factory.getbasetemp().parent) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def _own_clusters() -> Iterator[KafkaSandbox]:
    """Not started yet."""
    sandbox = KafkaSandbox()
    yield sandbox
    _stop(sandbox)


@pytest.fixture(scope="session")
def _secure_clusters() -> Iterator[KafkaSandbox]:
    sandbox = KafkaSandbox(secure=True)
    _start(sandbox)
    for broker in (sandbox.source, sandbox.target):
        kafka.use(broker.admin_properties)
    yield sandbox
    _stop(sandbox)


def _start(sandbox: KafkaSandbox) -> None:
    if sandbox not in _started:
        sandbox.start()
        _started.append(sandbox)


def _stop(sandbox: KafkaSandbox) -> None:
    if sandbox in _started:
        _started.remove(sandbox)
        sandbox.stop()


@pytest.fixture(autouse=True)
def _brokers_up_again() -> Iterator[None]:
    yield
    for sandbox in _started:
        for broker in (sandbox.source, sandbox.target):
            broker.resume()
            broker.start()
