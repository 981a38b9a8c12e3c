"""Fixtures of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.orchestration.sensors import group_observation, lateness, observation
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.spark.session import spark

__all__ = ["spark"]


@pytest.fixture(autouse=True)
def _busy_clusters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sensor gives up a tick after seconds without an answer, and a test would take that for its result."""
    if request.node.get_closest_marker("integration"):
        for module in (observation, group_observation, lateness):
            monkeypatch.setattr(module, "CALL_SECONDS", 60.0)


@pytest.fixture
def prefix() -> str:
    """Of the names of a test's topics and groups."""
    return unique("m")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for pipeline files that is not there yet, and a home of the test's own."""
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    return tmp_path / "pipelines"
