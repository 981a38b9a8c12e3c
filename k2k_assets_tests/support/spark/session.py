"""The Spark session that tests share; import the fixture into a folder's conftest.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.spark.sessions import build_session
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@pytest.fixture
def spark(tmp_path: Path) -> SparkSession:
    """A local session with the settings that a pipeline gets by default, but for small shuffles.

    The one that the process has is handed out, unless another test needed one with other settings in between.
    """
    settings = {"spark.sql.shuffle.partitions": "2"}  # for a handful of rows
    return build_session(make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["any"], spark={"config": settings}))
