"""A separate pipeline under Dagster, which tests materialize and whose events they read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import Discovery, refresh
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.assets.shown import shown_topics
from k2k_assets.orchestration.checks.topic_checks import topic_checks
from k2k_assets.orchestration.names import TOPIC_CHECK, AssetNames
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.copies.pipelines import write_pipeline

_CAUGHT_UP = {"extent": "caught_up"}


class DagsterFixture:
    """A folder with one pipeline, and Dagster on it.

    Args:
        clusters: Source and target.
        folder: Of the pipeline file; it is made.
        topics: A pattern, or names.
        groups: Consumer groups, likewise.
        mode: `features.exactlyOnce`.
        sections: Further sections of the file.
    """

    def __init__(
        self,
        clusters: KafkaSandbox,
        folder: Path,
        topics: str | Sequence[str],
        groups: str | list[str] = "none",
        mode: str = "enabled",
        **sections: Any,
    ) -> None:
        self.clusters = clusters
        self.folder = folder
        folder.mkdir()
        self.path = write_pipeline(
            folder,
            clusters.source_servers,
            clusters.target_servers,
            topics,
            features={"offsetMapping": "enabled", "exactlyOnce": mode, "headerReplication": "enabled"},
            groups={"consumerGroups": groups},
            **sections,
        )
        self.pipeline: Pipeline = load_pipeline([self.path])
        self.names = AssetNames(self.pipeline.name)
        self.instance = dg.DagsterInstance.ephemeral()

    def discover(self) -> Discovery:
        """Looks what the clusters hold, as the sensors do."""
        with both_clusters(self.pipeline) as (source, target):
            return refresh(self.pipeline, source, target)

    def move(self, *groups: dg.AssetKey) -> dg.ExecuteInProcessResult:
        """Materializes consumer groups alone, as a click does."""
        job = build_definitions(self.folder).resolve_job_def(self.names.job)
        return job.execute_in_process(
            asset_selection=groups,
            instance=self.instance,
            raise_on_error=False,
        )

    def run(self, selection: Sequence[dg.AssetKey] | None = None, **config: Any) -> dg.ExecuteInProcessResult:
        """Materializes until all is copied: everything, or what is selected."""
        job = build_definitions(self.folder).resolve_job_def(self.names.job)
        return job.execute_in_process(
            run_config={"ops": {self.names.op("topics"): {"config": {**_CAUGHT_UP, **config}}}},
            asset_selection=selection,
            instance=self.instance,
            raise_on_error=False,
        )

    def check_topics(self) -> dict[str, dg.AssetCheckEvaluation]:
        """What the checks on topics say, without copying."""
        (copies_on,) = topic_checks(self.pipeline, self.names, [t.name for t in shown_topics(self.pipeline, None)])
        job = dg.Definitions(
            asset_checks=[copies_on], jobs=[dg.define_asset_job("checks", dg.AssetSelection.checks(copies_on))]
        ).resolve_job_def("checks")
        evaluations = job.execute_in_process(instance=self.instance).get_asset_check_evaluations()
        return {e.asset_key.path[-1]: e for e in evaluations if e.check_name == TOPIC_CHECK}

    def shown_check(self, topic: str) -> dg.AssetCheckEvaluation | None:
        """What is shown of the check on a topic: what was last said, by whomever."""
        key = dg.AssetCheckKey(self.names.topic_key(topic), TOPIC_CHECK)
        latest = self.instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
        return latest.evaluation if latest else None

    def is_synced(self, key: dg.AssetKey) -> bool:
        """What Dagster itself says of an asset that was materialized."""
        return is_synced(self.instance, build_definitions(self.folder), key)

    def metadata(self, key: dg.AssetKey) -> dict[str, Any]:
        """Of the newest materialization."""
        event = self.instance.get_latest_materialization_event(key)
        assert event is not None, key
        materialization = event.asset_materialization
        assert materialization is not None
        return {name: value.value for name, value in materialization.metadata.items()}


def is_synced(instance: dg.DagsterInstance, definitions: dg.Definitions, key: dg.AssetKey) -> bool:
    """What Dagster itself says of an asset that was materialized."""
    resolver = CachingStaleStatusResolver(instance, definitions.resolve_asset_graph(), LoadingContextForTest(instance))
    status = resolver.get_status(key)
    assert status is not StaleStatus.MISSING
    return status is StaleStatus.FRESH


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """The words of the one step that failed."""
    (failed,) = result.filter_events(lambda event: event.is_step_failure)
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    return failure.description or ""
