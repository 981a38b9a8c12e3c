"""The Spark session that tests share; import the fixture into a folder's conftest.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.resources.spark import build_session
from k2k_assets_tests.support.pipelines import make_pipeline


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with the settings that a pipeline gets by default."""
    directory: Path = tmp_path_factory.mktemp("spark")
    session = build_session(make_pipeline(directory, "127.0.0.1:1", "127.0.0.1:1", ["any"]))
    yield session
    session.stop()
