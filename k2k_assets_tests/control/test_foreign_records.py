"""Records of another tool in control topics of the default names are named as such, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.control.foreign_records import is_foreign
from k2k_assets.core.errors import Refused
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.live.live import LiveMappings
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.control.test_golden_bytes import COMMIT
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@pytest.mark.parametrize(
    "key", [None, b"", b"\x00\x00\x00\x00\x07Hgroup", b"text", b"17", b"[]", b'{"offset":3}', b"[" * 100_000]
)
def test_foreign_keys(key: bytes | None) -> None:
    """Keys that no release of ours has written."""
    assert is_foreign(key)


@pytest.mark.parametrize("key", [COMMIT.key_bytes(), b'{"kind":"mapper","pipeline":"p"}', b'{"group":"g"}'])
def test_own_keys_also_of_newer_releases(key: bytes) -> None:
    assert not is_foreign(key)


@pytest.mark.integration
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize(
    ("which", "setting"), [("commit", "coordination.commit.topic"), ("assignment", "coordination.assignment.topic")]
)
def test_a_start_says_whose_records_they_are(
    clusters: KafkaSandbox, tmp_path: Path, which: str, setting: str, mode: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    produce(clusters.source_servers, topic, [b"x"])
    foreign = create_topic(clusters.target_servers, unique("k2k"), 1, {"cleanup.policy": "compact"})
    produce(clusters.target_servers, foreign, [(b"\x00\x00\x00\x00\x07\x0cgroup", b"\x02\x80\x01")], 0)
    names = {"commit": unique("commits"), "assignment": unique("claims"), which: foreign}
    pipeline = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic], features={"exactlyOnce": mode},
        coordination={kind: {"topic": name} for kind, name in names.items()},
    )  # fmt: skip
    with pytest.raises(Refused) as caught:
        copy(pipeline)
    said = str(caught.value)
    assert f"{foreign} is, or was, a control topic of another tool, such as K2K" in said
    assert f"one of its own ({setting})" in said
    assert "k2k-tool adopt" in said


@pytest.mark.integration
def test_a_mapping_topic_of_another_tool(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    foreign = create_topic(clusters.target_servers, unique("k2k"))
    produce(clusters.target_servers, foreign, [(b"\x00\x01", b"\x02")])
    features = {"offsetMapping": "enabled"}
    pipeline = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=features,
        offsetMapping={"topic": foreign},
    )  # fmt: skip
    with (
        both_clusters(pipeline) as (source, target),
        LiveMappings(pipeline, source.cluster_id(), target) as mappings,
        pytest.raises(Refused, match=r"offsetMapping\.topic"),
    ):
        mappings.catch_up(())
