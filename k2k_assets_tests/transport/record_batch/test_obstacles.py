"""Why a pipeline cannot go by batches: its settings, and what brokers say they speak."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.transport.factory import obstacles_to_batches
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.server import ModelBroker
from k2k_assets_tests.support.model_broker.wire import VERSIONS

EXACTLY_ONCE = {"exactlyOnce": "enabled"}


def _obstacles(
    directory: Path, source: dict[int, tuple[int, int]], target: dict[int, tuple[int, int]], version: int = 2
) -> list[str]:
    """What is in the way with brokers that speak other versions of some APIs."""
    nothing = ModelCluster({})
    with (
        ModelBroker(nothing, spoken={**VERSIONS, **source}) as one,
        ModelBroker(nothing, version, spoken={**VERSIONS, **target}) as other,
    ):
        pipeline = make_pipeline(directory, one.servers, other.servers, ["orders"], features=EXACTLY_ONCE)
        found = obstacles_to_batches(pipeline, asks_brokers=True)
        return [text.replace(one.servers, "S").replace(other.servers, "T") for text in found]


def test_nothing_is_in_the_way_of_present_brokers(tmp_path: Path) -> None:
    assert _obstacles(tmp_path, {}, {}) == []


def test_transactions_that_share_an_epoch_are_no_obstacle(tmp_path: Path) -> None:
    assert _obstacles(tmp_path, {}, {Api.END_TXN: (0, 4), Api.PRODUCE: (0, 11), Api.FETCH: (4, 12)}, version=1) == []


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ({Api.METADATA: (0, 11)}, {}, "source: the broker S speaks Metadata in versions 0 to 11, and 12 is needed"),
        ({Api.FETCH: (4, 11)}, {}, "source: the broker S speaks Fetch in versions 4 to 11, and 12 to 16 are needed"),
        ({}, {Api.PRODUCE: (0, 8)}, "target: the broker T speaks Produce in versions 0 to 8, and 9 to 13 are needed"),
        ({}, {Api.END_TXN: (0, 2)}, "target: the broker T speaks EndTxn in versions 0 to 2, and 3 to 5 are needed"),
        (
            {},
            {Api.FIND_COORDINATOR: (0, 3)},
            "target: the broker T speaks FindCoordinator in versions 0 to 3, and 4 is needed",
        ),
        ({}, {Api.ADD_PARTITIONS_TO_TXN: (0, 3)}, "target: the broker T does not verify transactions (KIP-890)"),
    ],
)
def test_brokers_that_speak_too_little_are_named(
    tmp_path: Path, source: dict[int, tuple[int, int]], target: dict[int, tuple[int, int]], why: str
) -> None:
    assert _obstacles(tmp_path, source, target) == [why]


def test_a_cluster_that_is_away_is_named(tmp_path: Path) -> None:
    with ModelBroker(ModelCluster({})) as there:
        pipeline = make_pipeline(tmp_path, "127.0.0.1:1", there.servers, ["orders"], features=EXACTLY_ONCE)
        (why,) = obstacles_to_batches(pipeline, asks_brokers=True)
    assert why.startswith("source: 127.0.0.1:1: ")


def test_settings_are_looked_at_first(tmp_path: Path) -> None:
    pipeline = make_pipeline(
        tmp_path, "a:1", "b:1", ["orders"], features=EXACTLY_ONCE, producer={"partitioner": "fnv1a"}
    )
    assert obstacles_to_batches(pipeline, asks_brokers=True) == ["partitioner is fnv1a"]


def test_certificates_on_another_machine_are_no_obstacle_until_brokers_are_asked(tmp_path: Path) -> None:
    missing = {"ssl.ca.location": str(tmp_path / "no-such.pem"), "security.protocol": "SSL"}
    pipeline = make_pipeline(tmp_path, "source:9092", "target:9092", ["orders"], producer=missing)
    assert obstacles_to_batches(pipeline, asks_brokers=False) == []
    with pytest.raises(Refused, match="No such file"):
        obstacles_to_batches(pipeline, asks_brokers=True)
