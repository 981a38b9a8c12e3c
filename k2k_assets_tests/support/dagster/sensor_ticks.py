"""Ticks of a sensor without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.coordination.liveness import Presence
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.definitions import build_definitions
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.observation import Observation
from k2k_assets.pipeline import Pipeline
from k2k_assets_tests.support.copies.pipelines import make_pipeline


class Ticks:
    """A sensor that is ticked by hand.

    Attributes:
        clock: The sensor's.
    """

    def __init__(self, folder: Path, source: str, target: str, topics: str | list[str], **sections: Any) -> None:
        folder.mkdir()
        self.folder = folder
        self.pipeline: Pipeline = make_pipeline(folder, source, target, topics, **sections)
        self.names = AssetNames(self.pipeline.name)
        self.instance = dg.DagsterInstance.ephemeral()
        self.cursor: str | None = None
        self.switched_on = 0.0
        self.clock: Clock = SYSTEM_CLOCK

    @property
    def sensor_name(self) -> str:
        """The name of the sensor."""
        return self.names.sensor

    def run(
        self, job: str, tags: dict[str, str], status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED
    ) -> dg.DagsterRun:
        """A run in progress, as the daemon makes one of a request."""
        definition = build_definitions(self.folder).resolve_job_def(job)
        return self.instance.create_run_for_job(definition, status=status, tags=tags)

    def tick(self) -> dg.SensorResult | dg.SkipReason:
        """One tick, with the cursor of the one before."""
        repository = build_definitions(self.folder, self.clock).get_repository_def()
        sensor = repository.get_sensor_def(self.sensor_name)
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursor,
            repository_def=repository,
            last_sensor_start_time=self.switched_on,
        )
        answer = sensor(context)
        assert isinstance(answer, dg.SensorResult | dg.SkipReason)
        if isinstance(answer, dg.SensorResult):
            self.cursor = answer.cursor
        return answer


def requests(answer: dg.SensorResult | dg.SkipReason) -> list[dg.RunRequest]:
    """What a tick asked for."""
    assert isinstance(answer, dg.SensorResult)
    return list(answer.run_requests or [])


def reason(answer: dg.SensorResult | dg.SkipReason) -> str:
    """Why it asked for nothing."""
    assert isinstance(answer, dg.SensorResult)
    return str(answer.skip_reason and answer.skip_reason.skip_message)


def seen(pipeline: Pipeline, instances: dict[str, Presence], log: CommitLog | None = None) -> Observation:
    """What a sensor sees of a topic `a`, of which one record is not copied yet."""
    found = Discovery(pipeline.name, 0, "source", "target", {})
    return Observation(found, {"a": [10]}, {"a": [9]}, None, log or CommitLog(), instances)
