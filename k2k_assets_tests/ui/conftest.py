"""A browser, and a replication under `dagster dev`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, sync_playwright
from playwright.sync_api import TimeoutError as NotShown

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, produce
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.dev import DagsterDev, make_folders

# Longest time until the UI shows an event.
PATIENCE_MS = 120_000
_TRIES = 4
_SIZE: ViewportSize = {"width": 1440, "height": 900}
# Without these Chromium asks its maker's servers, which a machine behind a firewall cannot reach.
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_SCREENSHOTS = "K2K_SCREENSHOTS"


@dataclass(frozen=True, slots=True)
class World:
    """A pipeline that is kept in sync by Dagster's sensors.

    Attributes:
        clusters: Source and target.
        pipeline: What is copied.
        names: Its names.
        dev: Dagster.
        orders: A topic that is copied.
        returns: Another one.
        group: A consumer group on `orders`.
    """

    clusters: KafkaSandbox
    pipeline: Pipeline
    names: AssetNames
    dev: DagsterDev
    orders: str = "shop.orders"
    returns: str = "shop.returns"
    group: str = "billing"


@dataclass(frozen=True, slots=True)
class Ui:
    """Pages of Dagster's UI.

    Attributes:
        page: The browser's page.
        url: Where the UI is.
        pictures: Where screenshots are kept.
    """

    page: Page
    url: str
    pictures: Path

    def open(self, path: str, shows: str) -> None:
        """Goes to a page and waits until it shows a text."""
        self.page.goto(f"{self.url}{path}")
        self._seen(shows).wait_for()

    def await_text(self, path: str, text: str) -> None:
        """Loads a page again until it shows a text."""
        for _ in range(_TRIES):
            self.page.goto(f"{self.url}{path}")
            try:
                self._seen(text).wait_for(timeout=PATIENCE_MS / _TRIES)
            except NotShown:
                continue
            return
        raise AssertionError(f"{path} does not show {text!r}; see {self.picture('failed')}")

    def _seen(self, text: str) -> Locator:
        """The first element that shows it: Dagster keeps hidden ones with names that it shortens, to measure them."""
        return self.page.get_by_text(text).filter(visible=True).first

    def picture(self, name: str) -> Path:
        """Keeps what is seen now."""
        path = self.pictures / f"{name}.png"
        self.page.screenshot(path=path, timeout=PATIENCE_MS)
        return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine (on Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def world(clusters: KafkaSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The pipeline with its Dagster, for all tests."""
    directory = tmp_path_factory.mktemp("ui")
    folder, dagster_home = make_folders(directory)
    path = write_pipeline(
        folder,
        clusters.source_servers,
        clusters.target_servers,
        "shop[.].*",
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"},
        groups={"consumerGroups": "billing"},
        index={"interval": "20 seconds"},
        sync={"reportsPerDay": 100000},
        owners=["team:shop"],
    )
    text = path.read_text()
    path.unlink()
    pipeline = load_pipeline([path := named(folder / "shop.yaml", text)])
    environment = {
        "DAGSTER_HOME": str(dagster_home),
        "K2K_HOME": str(directory / "home"),
        "K2K_PIPELINES": str(folder),
        "K2K_SENSORS": "running",
    }
    dev = DagsterDev(directory, environment, AssetNames(pipeline.name))
    made = World(clusters, pipeline, dev.names, dev)
    create_topic(clusters.source_servers, made.orders, 3)
    create_topic(clusters.source_servers, made.returns, 2)
    for topic in (made.orders, made.returns):
        produce(clusters.source_servers, topic, [(b"%d" % n, b"value %d" % n) for n in range(300)])
    commit(clusters.source_servers, made.group, {TopicPartition(made.orders, 0): 50})
    try:
        dev.await_answer()
        yield made
    finally:
        dev.stop()


def named(path: Path, text: str) -> Path:
    """The pipeline file under the name of its file, which looks well in a picture."""
    path.write_text(
        "\n".join(f"name: {path.stem}" if line.startswith("name:") else line for line in text.splitlines()) + "\n"
    )
    return path


@dataclass(frozen=True, slots=True)
class Project:
    """A project made by `create-dagster`, with a pipeline as our component.

    Attributes:
        clusters: Source and target.
        dev: Dagster, as `dg dev` runs it.
        topic: What is copied.
    """

    clusters: KafkaSandbox
    dev: DagsterDev
    topic: str = "customers.eu"


@pytest.fixture(scope="module")
def project(clusters: KafkaSandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The project, as docs/dagster.md says it is made."""
    directory = tmp_path_factory.mktemp("project")
    dagster_home, root = directory / "dagster", directory / "shop"
    dagster_home.mkdir()
    (dagster_home / "dagster.yaml").write_text("telemetry:\n  enabled: false\nnux:\n  enabled: false\n")
    tools = Path(sys.executable).parent
    environment = {
        "DAGSTER_HOME": str(dagster_home),
        "K2K_HOME": str(directory / "home"),
        "K2K_SENSORS": "running",
        "PYTHONPATH": str(root / "src"),  # as if it were installed
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
    }

    def run(place: Path, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(tools / program), *arguments], cwd=place, env={**os.environ, **environment}, check=True, timeout=500
        )

    run(directory, "create-dagster", "project", "shop", "--no-uv-sync")
    addresses = "--source", clusters.source_servers, "--target", clusters.target_servers
    topics = "--topics", "customers[.].*"
    run(root, "dg", "scaffold", "defs", "k2k_assets.K2KPipelineComponent", "customers", *addresses, *topics)
    dev = DagsterDev(directory, environment, AssetNames("customers"), ("dg", "dev"), root)
    made = Project(clusters, dev)
    create_topic(clusters.source_servers, made.topic, 2)
    produce(clusters.source_servers, made.topic, [(b"%d" % n, b"value %d" % n) for n in range(100)])
    try:
        dev.await_answer()
        yield made
    finally:
        dev.stop()


@pytest.fixture
def ui(browser: Browser, world: World, tmp_path: Path) -> Iterator[Ui]:
    """A new page on the replication."""
    with page_of(browser, world.dev, tmp_path) as page:
        yield page


@pytest.fixture
def project_ui(browser: Browser, project: Project, tmp_path: Path) -> Iterator[Ui]:
    """A new page on the project."""
    with page_of(browser, project.dev, tmp_path) as page:
        yield page


@contextmanager
def page_of(browser: Browser, dev: DagsterDev, tmp_path: Path) -> Iterator[Ui]:
    """A new page on what Dagster shows.

    Args:
        browser: Opens it.
        dev: Dagster.
        tmp_path: For pictures that nobody asked to keep.
    """
    page = browser.new_page(viewport=_SIZE)
    page.set_default_timeout(PATIENCE_MS)
    yield Ui(page, f"http://127.0.0.1:{dev.port}", pictures(tmp_path))
    page.close()


def pictures(otherwise: Path) -> Path:
    """Where screenshots are kept.

    Args:
        otherwise: Where nobody asked to keep them.
    """
    path = Path(os.environ.get(_SCREENSHOTS) or otherwise)
    path.mkdir(parents=True, exist_ok=True)
    return path
