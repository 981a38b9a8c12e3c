"""Fixtures of the mapping tests."""

from __future__ import annotations

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.spark.session import spark

__all__ = ["spark"]


@pytest.fixture
def topic(clusters: KafkaSandbox) -> str:
    """A topic of two partitions on both clusters."""
    name = unique("orders")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, name, partitions=2)
    return name
