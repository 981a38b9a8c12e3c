"""Fixtures of the check tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.copies.hand_copy import hand_copy
from k2k_assets_tests.support.spark.session import spark
from k2k_assets_tests.verification.world import World

__all__ = ["spark"]


@pytest.fixture(params=[{}], ids=[""])
def world(request: pytest.FixtureRequest, clusters: KafkaSandbox, spark: SparkSession, tmp_path: Path) -> World:
    topic = unique("orders")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic, config=request.param)
    hand = hand_copy(clusters, tmp_path, topic, features={"headerReplication": "enabled"})
    return World(clusters, topic, hand, spark)
