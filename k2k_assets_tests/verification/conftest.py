"""Fixtures of the check tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.spark.session import spark
from k2k_assets_tests.verification.world import World, worlds

__all__ = ["spark"]


@pytest.fixture
def world(clusters: KafkaSandbox, spark: SparkSession, tmp_path: Path) -> World:
    return worlds(clusters, spark, tmp_path, ["orders"])[0]
