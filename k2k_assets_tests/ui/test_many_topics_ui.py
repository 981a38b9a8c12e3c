"""A pipeline of 300 topics in Dagster's asset graph: what opens first, and what is behind it, can be read.

No broker is asked: the file names topics and groups, and definitions load without one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from k2k_assets.orchestration.names import AssetNames
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.dagster.dev import DagsterDev, make_folders
from k2k_assets_tests.ui.conftest import Ui, named, page_of
from k2k_assets_tests.ui.lineage import Lineage, Text

pytestmark = pytest.mark.ui

NAMES = AssetNames("warehouse")
# From left to right.
GROUPS = (NAMES.source_group, NAMES.copy_group, NAMES.offsets_group, NAMES.consumer_groups_group)
_REGIONS = ("africa", "america", "asia", "australia", "europe")
_SUBJECTS = (
    *("carts", "invoices", "orders", "payments", "pick-lists", "prices", "purchase-orders", "refunds", "returns"),
    *("shipments", "stock", "suppliers"),
)
_STATES = ("created", "changed", "confirmed", "closed", "archived")
TOPICS = [f"{region}.{subject}.{state}" for region in _REGIONS for subject in _SUBJECTS for state in _STATES]
CONSUMERS = [f"{region}-{subject}" for region in _REGIONS for subject in ("billing", "reports", "search")]
ONE = "europe.payments.confirmed"
# Smaller ones cannot be read without a lens.
_LEAST_HEIGHT = 10


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterDev]:
    """Dagster's web server with the pipeline."""
    assert len(TOPICS) == 300
    directory = tmp_path_factory.mktemp("warehouse")
    folder, dagster_home = make_folders(directory)
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    path = write_pipeline(
        *(folder, "source:9092", "target:9092", TOPICS), features=features, groups={"consumerGroups": CONSUMERS}
    )
    text = path.read_text()
    path.unlink()
    named(folder / "warehouse.yaml", text)
    environment = {
        "DAGSTER_HOME": str(dagster_home),
        "K2K_HOME": str(directory / "home"),
        "K2K_PIPELINES": str(folder),
    }
    dev = DagsterDev(directory, environment, NAMES, ("dagster-webserver", "-m", "k2k_assets.definitions"))
    try:
        dev.await_answer()
        yield dev
    finally:
        dev.stop()


@pytest.fixture
def ui(browser: Browser, warehouse: DagsterDev, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """A new page on it."""
    with page_of(browser, warehouse, tmp_path_factory.mktemp("pictures")) as page:
        yield page


def _settled(ui: Ui) -> Lineage:
    """The graph once all of it is loaded, and nothing moves any more."""
    ui.page.locator("svg foreignObject").filter(visible=True).first.wait_for()
    seen = Lineage.on(ui.page)
    while True:
        ui.page.wait_for_timeout(500)  # the graph moves for 300 ms
        before, seen = seen, Lineage.on(ui.page)
        if seen == before and seen.edges and not any(text.words.startswith("Loading") for text in seen.texts):
            return seen


def _unreadable(graph: Lineage) -> list[Text]:
    return [text for text in graph.texts if text.height < _LEAST_HEIGHT]


def test_the_graph_opens_with_four_groups_and_three_edges(ui: Ui) -> None:
    ui.page.goto(f"{ui.url}/asset-groups")
    graph = _settled(ui)
    assert sorted(text.words for text in graph.texts) == sorted(GROUPS)
    assert [graph.find(group).left for group in GROUPS] == sorted(text.left for text in graph.texts)
    assert len(graph.edges) == 3
    assert graph.faults() == []
    assert _unreadable(graph) == []
    ui.picture("many-topics")


def test_the_copies_expanded_are_one_column_that_can_be_read(ui: Ui) -> None:
    ui.page.goto(f"{ui.url}/asset-groups")
    _settled(ui)
    ui.page.locator("svg foreignObject").get_by_text(NAMES.copy_group, exact=True).click()
    expect(ui.page.locator("svg foreignObject").filter(visible=True).nth(4)).to_be_visible()
    graph = _settled(ui)
    ui.picture("many-topics-expanded")
    assert graph.faults() == []
    assert _unreadable(graph) == []


@pytest.mark.parametrize("group", [NAMES.copy_group, NAMES.offsets_group, NAMES.source_group])
def test_the_page_of_a_group_can_be_read(ui: Ui, group: str) -> None:
    """The edges of all topics meet at the commit log, beside the cards: none of them crosses another one."""
    ui.page.goto(f"{ui.url}/locations/k2k_assets.definitions/asset-groups/{group}")
    graph = _settled(ui)
    ui.picture(f"many-topics-{group}")
    assert graph.faults() == []
    assert _unreadable(graph) == []


def test_one_of_many_is_found(ui: Ui) -> None:
    """By a part of its name in the field above the list, and by a selection with its neighbours alone."""
    ui.page.goto(f"{ui.url}/asset-groups")
    _settled(ui)
    ui.page.get_by_placeholder("Jump to").fill("payments.confirmed")
    found = ui.page.get_by_text(ONE).filter(visible=True)
    expect(found).to_have_count(2)  # the source topic and its copy
    found.last.click()
    expect(ui.page.get_by_text(f"warehouse / topics / {ONE}")).to_be_visible()
    ui.picture("many-topics-found")
    ui.page.goto(f"{ui.url}/asset-groups")
    _settled(ui)
    ui.page.locator(".CodeMirror").first.click()
    ui.page.keyboard.type(f'1+key:"{"/".join(NAMES.topic_key(ONE).path)}"+1')
    ui.page.keyboard.press("Enter")
    ui.page.get_by_text("Materialize all (2)").filter(visible=True).first.wait_for()
    graph = _settled(ui)
    ui.picture("many-topics-one")
    assert len(graph.edges) == 2
    assert graph.faults() == []
