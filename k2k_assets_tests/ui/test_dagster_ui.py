"""Dagster's UI while a pipeline is kept in sync: nothing is red or false if there is no fault."""

from __future__ import annotations

import dagster as dg
import pytest
from playwright.sync_api import expect

from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, end_offsets, produce, read_all
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.ui.conftest import PATIENCE_MS, Ui, World

# Other tests use the names of its topics and groups too.
pytestmark = [
    pytest.mark.ui,
    pytest.mark.integration,
    pytest.mark.own_clusters,
    pytest.mark.spark,
]


def _page(key: dg.AssetKey, view: str = "") -> str:
    return f"/assets/{'/'.join(key.path)}" + (f"?view={view}" if view else "")


def test_a_copied_topic_is_synced(ui: Ui, world: World) -> None:
    """By Dagster's own status, with the numbers of the copy."""
    world.dev.await_that(lambda: len(read_all(world.clusters.target_servers, world.orders)) == 300, 900, "the copy")
    page = _page(world.names.topic_key(world.orders))
    ui.await_text(page, "k2k/records_per_second")
    produce(world.clusters.source_servers, world.orders, [(b"key", b"%d" % n) for n in range(60)])
    ui.await_text(page, "k2k/offsets_copied_per_second")
    expect(ui.page.get_by_text("Unsynced")).to_have_count(0)
    for shown in ("Owners", "k2k/delivery: exactly-once", "k2k/seconds_behind"):
        expect(ui.page.get_by_text(shown).first).to_be_visible()
    expect(ui.page.get_by_role("link", name="pipeline file")).to_be_visible()
    ui.picture("topic")


def test_the_graph_goes_from_the_source_to_the_groups(ui: Ui, world: World) -> None:
    ui.open("/asset-groups", "shop_offsets")
    places = [ui.page.get_by_text(f"shop_{group}").last for group in ("source", "copy", "offsets", "groups")]
    boxes = [place.bounding_box() for place in places]
    lefts = [box["x"] for box in boxes if box is not None]
    assert len(lefts) == 4
    assert lefts == sorted(lefts), "each stands right of what it is made from"
    for text in ("newsletter", "Join the Dagster community"):
        expect(ui.page.get_by_text(text)).to_have_count(0)
    ui.picture("graph")


def test_materialize_is_answered_while_the_sync_runs(ui: Ui, world: World) -> None:
    ui.open(_page(world.names.topic_key(world.orders)), "Latest materialization")
    with ui.page.expect_response(lambda answer: "mutation Launch" in (answer.request.post_data or "")):
        ui.page.get_by_role("button", name="Materialize").first.click()
    ui.await_text(_page(world.names.topic_key(world.orders)), "k2k/copied_by")
    expect(ui.page.get_by_text("Unsynced")).to_have_count(0)
    ui.open("/runs", "Manually launched")
    expect(ui.page.get_by_text("Success").first).to_be_visible(timeout=PATIENCE_MS)
    expect(ui.page.get_by_text("Failure")).to_have_count(0)
    assert world.dev.failed_runs() == []
    ui.picture("runs")


def test_a_stopped_topic_says_why_and_the_others_go_on(ui: Ui, world: World) -> None:
    delete_topic(world.clusters.source_servers, world.returns)
    create_topic(world.clusters.source_servers, world.returns, 2)
    key = world.names.topic_key(world.returns)
    ui.await_text(f"{_page(key, 'checks')}&checkDetail=copies_on", "[source-")
    expect(ui.page.get_by_text("Failed").first).to_be_visible()
    ui.picture("stopped-topic")
    ui.open(_page(world.names.topic_key(world.orders)), "Latest materialization")
    expect(ui.page.get_by_text("Failed")).to_have_count(0)


def test_lag_is_plotted(ui: Ui, world: World) -> None:
    ui.await_text(_page(world.names.commit_log_key), "k2k/worst_partition")
    ui.page.get_by_text("Plots").click()
    expect(ui.page.locator("canvas").first).to_be_visible()
    for plotted in ("k2k/lag", "k2k/seconds_behind", "k2k/stopped"):
        expect(ui.page.get_by_text(plotted, exact=True)).to_be_visible()
    ui.picture("plots")


def test_the_sensors_are_on(ui: Ui, world: World) -> None:
    ui.open("/automation", world.names.sensor)
    for name in (world.names.sensor, world.names.offset_sensor):
        row = ui.page.locator("div", has_text=name).last
        expect(row).to_be_visible()
    ui.picture("sensors")


def test_a_failing_check_leads_to_its_evidence(ui: Ui, world: World) -> None:
    """The last one: after it the mappings of the pipeline are wrong."""
    end = end_offsets(world.clusters.source_servers, world.orders)[0]
    HandCopy(world.pipeline).mapping(world.orders, (end, end + 10), [(end, 5000, 10)], generation=10**9)
    run = world.dev.launch(world.names.mappings_job)
    world.dev.await_that(lambda: world.dev.is_over(run), 900, "the checks")
    ui.await_text(_page(world.names.offset_mappings_key, "checks"), "within_watermarks")
    ui.page.get_by_text("within_watermarks").first.click()
    expect(ui.page.get_by_text("k2k-tool show").first).to_be_visible()
    expect(ui.page.get_by_text("Failed").first).to_be_visible()
    ui.picture("failing-check")
