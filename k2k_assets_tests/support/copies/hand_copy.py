"""A copy by hand: records on both clusters, with mapping and commit records that may be right or wrong."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.control_topics import control_topics, ensure_control_topics
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.control.mapping_records import DroppedBy, MappedPartition, MappingRecord
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.runs import Run
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import Record, end_offsets, produce, unique
from k2k_assets_tests.support.copies.pipelines import make_pipeline


def hand_copy(clusters: KafkaSandbox, directory: Path, *topics: str, **sections: Any) -> HandCopy:
    """A copy by hand, with an index in a folder.

    Args:
        clusters: Both clusters.
        directory: For the file and the index.
        topics: The topics.
        sections: As of `write_pipeline`.
    """
    sections["features"] = {"offsetMapping": "enabled", **sections.get("features", {})}
    servers = clusters.source_servers, clusters.target_servers
    return HandCopy(
        make_pipeline(directory, *servers, list(topics), index={"path": str(directory / "index")}, **sections)
    )


class HandCopy:
    """Writes what an engine would write, as the test says.

    Args:
        pipeline: Its control topics are made.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.source = Cluster("source", pipeline.client_properties("source", "admin"))
        self.target = Cluster("target", pipeline.client_properties("target", "admin"))
        ensure_control_topics(pipeline, self.target)
        for name in control_topics(pipeline):
            wait_until(partial(end_offsets, self.target.servers, name), 120, f"leaders of {name}")
        self._sequence = 0

    def mapping(
        self,
        topic: str,
        covered: tuple[int, int],
        runs: Sequence[tuple[int, int, int]],
        partition: int = 0,
        generation: int = 1,
        sequence: int | None = None,
        target_id: str | None = None,
        group: str | None = None,
        time: int = 1,
        settings: CopySettings | None = None,
        noted: bool = True,
        dropped: Sequence[DroppedBy] = (),
    ) -> MappingRecord:
        """Writes one mapping record; the target topic has the same name and partition.

        It was copied under the settings of today unless others are given, or none were noted.
        """
        fingerprint = (settings or CopySettings.of(self.pipeline)).fingerprint
        self._sequence += 1
        mapped = MappedPartition(topic, target_id or self._target_id(topic), partition, tuple(Run(*r) for r in runs))
        record = MappingRecord(
            group=group or self.pipeline.group,
            topic=topic,
            partition=partition,
            pipeline=self.pipeline.name,
            cluster=self.source.cluster_id(),
            source_topic_id=self._source_id(topic),
            generation=generation,
            slot=0,
            sequence=self._sequence if sequence is None else sequence,
            time=time,
            covered_from=covered[0],
            covered_to=covered[1],
            targets=(mapped,) if runs else (),
            settings=fingerprint if noted else None,
            dropped=tuple(dropped),
        )
        self.write(self.pipeline.offset_mapping.topic, record.key_bytes(), record.value_bytes())
        return record

    def override(self, topic: str, position: int, generation: int = 1) -> None:
        """Writes the mapping record of an override that skips nothing."""
        self._sequence += 1
        record = MappingRecord(
            group=self.pipeline.group,
            topic=topic,
            partition=0,
            pipeline=self.pipeline.name,
            cluster=self.source.cluster_id(),
            source_topic_id=self._source_id(topic),
            generation=generation,
            slot=0,
            sequence=self._sequence,
            time=1,
            covered_from=position,
            covered_to=position,
            targets=(),
            override="somebody: a test",
        )
        self.write(self.pipeline.offset_mapping.topic, record.key_bytes(), record.value_bytes())

    def commit(
        self, topic: str, position: int, partition: int = 0, records: int = 1, stopped: StopReason | None = None
    ) -> CommitRecord:
        """Writes one commit record; of a partition that was stopped with the reason."""
        self._sequence += 1
        record = CommitRecord(
            group=self.pipeline.group,
            cluster=self.source.cluster_id(),
            source=TopicPartition(topic, partition),
            kind="commit",
            pipeline=self.pipeline.name,
            position=position,
            leader_epoch=None,
            source_topic_id=self._source_id(topic),
            target_topic=topic,
            target_topic_id=self._target_id(topic),
            target_end=None,
            generation=1,
            slot=0,
            sequence=self._sequence,
            time=1,
            records=records,
            reason=stopped,
        )
        self.write(self.pipeline.coordination.commit.topic, record.key_bytes(), record.value_bytes())
        return record

    def write(self, topic: str, key: bytes, value: bytes) -> None:
        """Writes one record to partition 0 of a topic of the target, in a transaction as the engine does."""
        produce(self.target.servers, topic, [Record(key, value, partition=0)], transactional_id=unique("hand"))

    def _source_id(self, topic: str) -> str:
        return self.source.describe([topic])[topic].topic_id

    def _target_id(self, topic: str) -> str:
        return self.target.describe([topic])[topic].topic_id
