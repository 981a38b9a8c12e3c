"""The history of a pipeline on a Dagster instance, made by Dagster itself without a cluster."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.events import StepMaterializationData
from dagster._core.loader import LoadingContextForTest

from k2k_assets import discovery
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.topics.topic_report import topic_report
from k2k_assets.orchestration.checks.last_verdicts import failed_checks
from k2k_assets.orchestration.maintenance.keeping import Ours
from k2k_assets.orchestration.names import GROUP_CHECK, TOPIC_CHECK, AssetNames
from k2k_assets.orchestration.sensors.run_history import last_run
from k2k_assets.orchestration.sensors.sync_history import sync_runs
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.support.copies.pipelines import make_pipeline

TOPICS = ("a.b", "quiet")
MAPPINGS = "those of the pipeline"


class History:
    """What runs and sensors of one pipeline leave in a Dagster instance.

    Args:
        instance: Keeps it.
        folder: Of the pipeline file; it is made.
    """

    def __init__(self, instance: dg.DagsterInstance, folder: Path) -> None:
        self.instance = instance
        self.folder = folder
        folder.mkdir()
        features = {"offsetMapping": "enabled"}
        self.pipeline = make_pipeline(folder, "s:9092", "t:9092", ".*", features=features)
        known = {topic: DiscoveredTopic(1, topic) for topic in TOPICS}
        discovery.save(Discovery(self.pipeline.name, 0, "source", "target", known))
        self.names = AssetNames(self.pipeline.name)
        self.ours = Ours([self.names])
        self.checks = [dg.AssetCheckKey(self.names.offset_mappings_key, check) for check in CHECKS]
        self.topic_check = dg.AssetCheckKey(self.names.topic_key("a.b"), TOPIC_CHECK)

    @property
    def keys(self) -> list[dg.AssetKey]:
        """Of the assets that have a history."""
        topics = [key(topic) for topic in TOPICS for key in (self.names.topic_key, self.names.source_key)]
        return [*topics, self.names.offset_mappings_key]

    # -- what makes history -----------------------------------------------------------------------------------------

    def sync(self, *reports: tuple[str, int, int], tags: Mapping[str, str] | None = None) -> str:
        """A run of the sync job that reports topics: name, position, and where the source ends.

        Its events are written as Dagster writes those of a run, without a process and steps that would cost time.
        """
        run = self.begin(self.names.sync_tags if tags is None else tags)
        for topic, position, end in reports:
            self._report(topic, position, end, run)
        self._log(run, dg.DagsterEventType.RUN_SUCCESS)
        return run.run_id

    def move(self, group: str) -> str:
        """A run of the offset sync job that reports a consumer group, and compares its positions."""
        run, key = self.begin(self.names.offset_sync_tags), self.names.consumer_group_key(group)
        self._log(run, dg.DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(dg.AssetMaterialization(key)))
        verdict = dg.AssetCheckEvaluation(asset_key=key, check_name=GROUP_CHECK, passed=True, metadata={})
        self._log(run, dg.DagsterEventType.ASSET_CHECK_EVALUATION, verdict)
        self._log(run, dg.DagsterEventType.RUN_SUCCESS)
        return run.run_id

    def report(self, topic: str, position: int, end: int) -> None:
        """What the sensor reports where `k2k start` copies: events that belong to no run, and a verdict."""
        self._report(topic, position, end)
        verdict = dg.AssetCheckEvaluation(
            asset_key=self.topic_check.asset_key, check_name=TOPIC_CHECK, passed=position < end, metadata={}
        )
        self.instance.report_runless_asset_event(verdict)

    def begin(self, tags: Mapping[str, str]) -> dg.DagsterRun:
        """A run of the sync job that has not ended."""

        @dg.job(name=self.names.sync_job)
        def begun() -> None: ...

        return self.instance.create_run_for_job(begun, tags=tags, status=dg.DagsterRunStatus.STARTED)

    def check_mappings(self, passed: bool, graph: bool = False) -> str:
        """A run of the mappings job, or one that was launched from the asset graph, with the verdict of its checks."""

        @dg.multi_asset(
            specs=[dg.AssetSpec(self.names.offset_mappings_key)],
            check_specs=[dg.AssetCheckSpec(check.name, asset=check.asset_key) for check in self.checks],
        )
        def mappings() -> Iterator[dg.MaterializeResult[None]]:
            metadata = {keys.MAPPINGS: MAPPINGS}
            names = [check.name for check in self.checks]
            results = [dg.AssetCheckResult(passed=passed, check_name=name, metadata=metadata) for name in names]
            yield dg.MaterializeResult(check_results=results)

        job = dg.define_asset_job(self.names.mappings_job, [mappings], tags=self.names.mappings_tags)
        definitions = dg.Definitions(assets=[mappings], jobs=[job])
        if graph:
            whole = definitions.resolve_implicit_global_asset_job_def()
            return whole.execute_in_process(instance=self.instance, asset_selection=[mappings.key]).run_id
        return definitions.resolve_job_def(self.names.mappings_job).execute_in_process(instance=self.instance).run_id

    def _report(self, topic: str, position: int, end: int, run: dg.DagsterRun | None = None) -> None:
        code = self.pipeline.code_version
        for event in topic_report(
            self.names, code, topic, {0: end}, {0: position}, {"k2k/lag": end - position}, "an id"
        ):
            if run is not None and isinstance(event, dg.AssetMaterialization):
                self._log(run, dg.DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(event))
            else:
                self.instance.report_runless_asset_event(event)

    def _log(self, run: dg.DagsterRun, kind: dg.DagsterEventType, data: Any = None) -> None:
        self.instance.report_dagster_event(
            dg.DagsterEvent(kind.value, run.job_name, event_specific_data=data), run.run_id
        )

    # -- what is seen of it -----------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """What Dagster shows of the assets, by its own calls, and what the sensors see of runs and checks."""
        return {
            "synced": self.synced(),
            "newest": {key: self._newest(key) for key in self.keys},
            "records": self._records(),
            "latest checks": self._checks(),
            "failed checks": failed_checks(self.instance, self.checks, MAPPINGS),
            "sync runs": sync_runs(self.instance, self.names.sync_tags, time.time()),
            "mappings": last_run(self.instance, self.names.mappings_tags),
        }

    def synced(self) -> dict[str, str]:
        """Dagster's status of each copy."""
        graph = build_definitions(self.folder).resolve_asset_graph()
        resolver = CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))
        return {topic: resolver.get_status(self.names.topic_key(topic)).value for topic in TOPICS}

    def reports(self, key: dg.AssetKey) -> int:
        """How many observations and materializations of an asset there are."""
        found = self.instance.fetch_observations(key, limit=1000), self.instance.fetch_materializations(key, limit=1000)
        return sum(len(one.records) for one in found)

    def runs(self) -> set[str]:
        """Ids of all runs."""
        return {run.run_id for run in self.instance.get_runs()}

    def _newest(self, key: dg.AssetKey) -> list[object]:
        found = self.instance.fetch_observations(key, limit=1), self.instance.fetch_materializations(key, limit=1)
        records = [record for one in found for record in one.records]
        return [(record.storage_id, record.event_log_entry) for record in records]

    def _records(self) -> list[object]:
        found = self.instance.get_asset_records(self.keys)
        return [(one.asset_entry.asset_key, one.asset_entry.last_materialization_record) for one in found]

    def _checks(self) -> dict[dg.AssetCheckKey, Any]:
        latest = self.instance.event_log_storage.get_latest_asset_check_execution_by_key(
            [*self.checks, self.topic_check]
        )
        return {key: (record.id, record.evaluation) for key, record in latest.items()}
