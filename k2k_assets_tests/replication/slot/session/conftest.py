"""A harness for each test of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.slot import session as module
from k2k_assets_tests.replication.slot.session.harness import Harness, pipeline_with, use_clock
from k2k_assets_tests.support.memory.clock import FakeClock
from k2k_assets_tests.support.memory.fake_transport import Arrival


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return pipeline_with(tmp_path_factory.mktemp("pipeline"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return use_clock(monkeypatch)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch, clock: FakeClock, pipeline: Pipeline) -> Any:
    def make(arrivals: list[Arrival], ends: Mapping[TopicPartition, int], **rest: Any) -> Harness:
        made = Harness(rest.pop("pipeline", pipeline), clock, arrivals, ends, **rest)
        monkeypatch.setattr(module, "read_commit_log", lambda *_, **__: made.commit_log)
        return made

    return make
