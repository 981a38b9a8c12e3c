"""Fixtures of the index's tests."""

from pathlib import Path

import pytest

from k2k_assets_tests.support.memory.mapping_topic import LocalIndex
from k2k_assets_tests.support.spark.session import spark

__all__ = ["spark"]


@pytest.fixture
def index(tmp_path: Path) -> LocalIndex:
    """An index without Kafka and Spark."""
    return LocalIndex(tmp_path)
