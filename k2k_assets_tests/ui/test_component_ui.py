"""Our component in Dagster's UI, in a separate project that `dg dev` runs."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from k2k_assets_tests.support.brokers.kafka import read_all, topics
from k2k_assets_tests.ui.conftest import Project, Ui

pytestmark = [pytest.mark.ui, pytest.mark.integration, pytest.mark.spark]

TYPE = "k2k_assets.K2KPipelineComponent"


def test_the_component_is_explained(project_ui: Ui, project: Project) -> None:
    """What it is, the command that makes one, and each of its attributes with what it means."""
    project_ui.open("/locations/shop/components/library/packages/k2k_assets", TYPE)
    project_ui.page.get_by_text(TYPE).first.click()
    for shown in (
        "A Kafka-to-Kafka pipeline: copied topics, commit log, offset mappings and consumer groups as assets.",
        f"dg scaffold defs {TYPE}",
        "The pipeline file, relative to defs.yaml",
        "How assets look: group, owners, tags and so on.",
        "defs_state",
    ):
        expect(project_ui.page.get_by_text(shown).first).to_be_visible()
    project_ui.picture("component")


def test_a_pipeline_of_the_component_is_copied_and_seen_in_the_graph(project_ui: Ui, project: Project) -> None:
    servers, names = project.clusters.target_servers, project.dev.names
    project.dev.await_that(
        lambda: project.topic in topics(servers) and len(read_all(servers, project.topic)) == 100, 900, "the copy"
    )
    project_ui.await_text(f"/assets/{'/'.join(names.topic_key(project.topic).path)}", "k2k/records_per_second")
    expect(project_ui.page.get_by_text("Unsynced")).to_have_count(0)
    project_ui.open("/asset-groups", names.offsets_group)
    for group in (names.source_group, names.copy_group, names.offsets_group, names.consumer_groups_group):
        expect(project_ui.page.get_by_text(group).last).to_be_visible()
    project_ui.picture("component-graph")
    assert project.dev.failed_runs() == []
