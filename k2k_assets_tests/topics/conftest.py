"""Both clusters for the tests of topics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox


@pytest.fixture
def source(clusters: KafkaSandbox) -> Iterator[Cluster]:
    """The source."""
    with Cluster("source", {"bootstrap.servers": clusters.source_servers}) as cluster:
        yield cluster


@pytest.fixture
def target(clusters: KafkaSandbox) -> Iterator[Cluster]:
    """The target."""
    with Cluster("target", {"bootstrap.servers": clusters.target_servers}) as cluster:
        yield cluster
