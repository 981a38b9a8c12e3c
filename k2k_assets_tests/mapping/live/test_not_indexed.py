"""From where on the mapping records that an index has not read answer in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.index import IndexReader, IndexUnusable
from k2k_assets.mapping.index.manifest import Manifest
from k2k_assets.mapping.index.portion_table import PORTIONS
from k2k_assets.mapping.live.not_indexed import mapped_from
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import delete_records, end_offsets, unique
from k2k_assets_tests.support.copies.hand_copy import HandCopy, hand_copy

pytestmark = pytest.mark.integration


@pytest.fixture
def copied(clusters: KafkaSandbox, topic: str, tmp_path: Path) -> HandCopy:
    return hand_copy(clusters, tmp_path, topic, offsetMapping={"topic": unique("mappings")})


def _indexed(copy: HandCopy) -> Manifest:
    """The manifest of an index that has read what there is now."""
    topic = copy.pipeline.offset_mapping.topic
    return Manifest(
        group=copy.pipeline.group,
        source_cluster=copy.source.cluster_id(),
        target_cluster=copy.target.cluster_id(),
        mapping_topic=topic,
        mapping_topic_id=copy.target.describe([topic])[topic].topic_id,
        offsets=end_offsets(copy.target.servers, topic),
        pipeline=copy.pipeline.name,
        directory="d",
        number=1,
        time=0,
        records_read=0,
        runs=0,
        mapped=0,
    )


def _not_indexed(copy: HandCopy, manifest: Manifest) -> dict[TopicPartition, int]:
    found = mapped_from(copy.pipeline, _reader(manifest), copy.target, 10)
    return {TopicPartition(source.topic, source.partition): each.start for source, each in found.items()}


def _reader(manifest: Manifest) -> IndexReader:
    return IndexReader.of(Path("no files"), manifest, PORTIONS.empty_table())


def test_what_is_set_back_and_copied_again_answers_from_there_on(copied: HandCopy, topic: str) -> None:
    first, second = (TopicPartition(topic, p) for p in range(2))
    copied.mapping(topic, (0, 100), [(0, 0, 100)])
    manifest = _indexed(copied)
    assert _not_indexed(copied, manifest) == {}
    copied.mapping(topic, (100, 140), [(100, 101, 40)])
    copied.mapping(topic, (20, 60), [(20, 0, 40)], partition=1)
    copied.mapping(topic, (7, 60), [], group="another")
    assert _not_indexed(copied, manifest) == {first: 100, second: 20}
    copied.override(topic, 40, generation=2)
    copied.mapping(topic, (40, 200), [(40, 40, 160)], generation=3)
    assert _not_indexed(copied, manifest) == {first: 40, second: 20}
    anew = manifest.model_copy(update={"mapping_topic_id": "former"})
    assert _not_indexed(copied, anew) == {first: 0, second: 20}, "then the index has read nothing of it"


def test_what_is_deleted_before_the_index_has_read_it_may_have_said_anything(copied: HandCopy, topic: str) -> None:
    manifest = _indexed(copied)
    copied.mapping(topic, (0, 100), [(0, 0, 100)])
    name = copied.pipeline.offset_mapping.topic
    delete_records(copied.target.servers, name, 0, end_offsets(copied.target.servers, name)[0])
    with pytest.raises(IndexUnusable, match="has deleted records that the index has not read"):
        mapped_from(copied.pipeline, _reader(manifest), copied.target, 10)
