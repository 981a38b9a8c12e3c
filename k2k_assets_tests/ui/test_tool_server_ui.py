"""The page of `k2k-tool server` in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_records, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.services.tool_server import tool_server
from k2k_assets_tests.ui.conftest import PATIENCE_MS, Ui, pictures

pytestmark = [pytest.mark.ui, pytest.mark.integration]

expect.set_options(timeout=PATIENCE_MS)

TOKEN = "a token that nobody guesses"


@dataclass(frozen=True, slots=True)
class Shop:
    """Two copied topics."""

    clusters: KafkaSandbox
    file: Path
    orders: str
    returns: str

    @property
    def pipeline(self) -> Pipeline:
        """What is copied."""
        return load_pipeline([self.file])

    def write(self, topic: str, count: int) -> None:
        """Writes records to the source."""
        produce(self.clusters.source_servers, topic, [b"%d" % n for n in range(count)], partition=0)


@pytest.fixture
def shop(clusters: KafkaSandbox, tmp_path: Path) -> Shop:
    prefix = unique("shop")
    orders, returns = (create_topic(clusters.source_servers, f"{prefix}.{name}", 2) for name in ("orders", "returns"))
    file = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [orders, returns],
        name=prefix,
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"consumerGroups": "served-billing"},
    )
    made = Shop(clusters, file, orders, returns)
    made.write(orders, 200)
    made.write(returns, 100)
    commit(clusters.source_servers, "served-billing", {TopicPartition(orders, 0): 50})
    copy(made.pipeline)
    return made


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page on which no script fails."""
    made = browser.new_page(viewport={"width": 1440, "height": 900})
    made.set_default_timeout(PATIENCE_MS)
    faults: list[str] = []

    def told(message: ConsoleMessage) -> None:
        if message.type == "error" and "status of 409" not in message.text and "status of 401" not in message.text:
            faults.append(message.text)

    made.on("console", told)
    made.on("pageerror", lambda error: faults.append(str(error)))
    yield made
    made.close()
    assert faults == []


def test_a_stopped_topic_is_found_and_put_right(shop: Shop, page: Page, tmp_path: Path) -> None:
    shop.write(shop.orders, 300)
    delete_records(shop.clusters.source_servers, shop.orders, 0, 350)
    assert copy(shop.pipeline).stopped
    with tool_server("-f", shop.file) as address:
        ui = Ui(page, address, pictures(tmp_path))
        ui.open("/", f"{shop.orders}-0 is stopped")
        page.get_by_role("button", name=shop.orders, exact=True).click()
        expect(page.get_by_role("columnheader", name="committed", exact=True)).to_be_visible()
        expect(page.get_by_text("served-billing")).to_be_visible()
        ui.picture("tool-server")
        page.get_by_role("button", name="Put it right").first.click()
        assert page.get_by_role("button", name="Set", exact=True).is_disabled()
        page.get_by_role("button", name="Show what would change").click()
        expect(page.get_by_text("nothing has changed yet")).to_be_visible()
        expect(page.get_by_role("dialog").get_by_text("350")).to_be_visible()
        ui.picture("tool-server-set")
        page.get_by_role("button", name="Set", exact=True).click()
        expect(page.get_by_text("Set.", exact=True)).to_be_visible()
        page.get_by_role("button", name="Close").click()
        assert not copy(shop.pipeline).stopped
        expect(page.get_by_text("is stopped")).to_have_count(0)
        expect(page.locator(f"tr[data-topic='{shop.orders}'] .state")).to_have_text("active")


def test_a_topic_is_paused_and_resumed(shop: Shop, page: Page) -> None:
    with tool_server("-f", shop.file) as address:
        page.goto(address)
        row = page.locator(f"tr[data-topic='{shop.returns}']")
        row.get_by_role("button", name="Pause").click()
        expect(row.locator(".state")).to_have_text("paused")
        row.get_by_role("button", name="Resume").click()
        expect(row.locator(".state")).to_have_text("active")


def test_no_other_pipeline_takes_the_place_of_one_whose_file_has_a_fault(browser: Browser, tmp_path: Path) -> None:
    """Somebody may be about to pause a topic."""
    nobody, folders = "127.0.0.1:1", [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    first, second = (
        write_pipeline(folder, nobody, nobody, ["t"], name="shop", consumer={"group.id": folder.name})
        for folder in folders
    )
    page = browser.new_page()
    with tool_server("-f", first, "-f", second) as address:
        page.goto(address)
        expect(page.get_by_role("link", name="shop:one")).to_have_attribute("aria-current", "page")
        first.write_text("name: shop\n")
        expect(page.get_by_text("No file that can be used has the pipeline shop:one")).to_be_visible()
        expect(page.get_by_role("link", name="shop")).not_to_have_attribute("aria-current", "page")
        page.get_by_role("link", name="shop").click()
        expect(page.get_by_role("link", name="shop")).to_have_attribute("aria-current", "page")
    page.close()


def test_whoever_comes_from_elsewhere_needs_the_token(shop: Shop, page: Page, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with tool_server("-f", shop.file, "-h", "0.0.0.0", "--token-file", token, "--read-only") as address:
        page.goto(address.replace("0.0.0.0", "127.0.0.1"))
        page.get_by_label("Token of this server").fill("wrong")
        page.get_by_role("button", name="Go on").click()
        expect(page.get_by_text("this is not the token")).to_be_visible()
        page.get_by_label("Token of this server").fill(TOKEN)
        page.get_by_role("button", name="Go on").click()
        expect(page.locator(f"tr[data-topic='{shop.orders}']")).to_be_visible()
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        expect(page.get_by_role("button", name="Set …")).to_have_count(0)


def test_what_comes_from_a_cluster_is_never_read_as_markup(shop: Shop, page: Page) -> None:
    lines = shop.file.read_text().splitlines()
    name = "<img src=x onerror=alert(1)>"
    shop.file.write_text("\n".join(f"name: '{name}'" if line.startswith("name:") else line for line in lines))
    with tool_server("-f", shop.file) as address:
        page.goto(address)
        expect(page.get_by_role("heading", name=name)).to_be_visible()
        expect(page.locator("main img")).to_have_count(0)
