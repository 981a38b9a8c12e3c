"""What the benchmark of ticks looks at: real brokers with many topics and groups, and a target that was copied to.

Only what a tick does not ask for is left out: copied topics on the target, and the files of the index. What it reads,
control topics and the manifest of the index, is written in the product's own form, as much as a copy of all leaves.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from benchmarks import report
from k2k_assets.control.assignment_records import Claim, heartbeat_key, time_value
from k2k_assets.control.assignment_writing import new_instance, write_instance, write_record, write_records
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.control_topics import control_topics, ensure_control_topics
from k2k_assets.control.mapper_claims import MapperHeartbeat
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.home import index_directory
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.index.manifest import Manifest, NotedPosition, switch
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.groups import commit

# A partition has two files of this size for its indexes from its first record on.
_BROKER_SETTINGS = {"log.index.size.max.bytes": "65536", "log.retention.check.interval.ms": "3600000"}
_AT_ONCE = 25
_ADMIN_SECONDS = 400.0
# Of each key, until the topic is compacted.
_RECORDS_PER_KEY = 5
_TOPICS_PER_GROUP = 2

T = TypeVar("T")


class Size(NamedTuple):
    """How much there is.

    Attributes:
        topics: On the source.
        partitions: Of each.
        groups: Consumer groups of the source, each with a commit in each partition of two topics.
    """

    topics: int
    partitions: int
    groups: int

    @property
    def names(self) -> list[str]:
        """The topics: names as long as people give them."""
        return [f"europe.shop-{number % 20:02}.order-events.v{number:03}" for number in range(self.topics)]


class TickWorld:
    """Two clusters and a pipeline.

    Args:
        size: How much there is.
        folder: For the pipeline file and the state.
    """

    def __init__(self, size: Size, folder: Path) -> None:
        self.size = size
        self.folder = folder
        self._sandbox = KafkaSandbox(settings=_BROKER_SETTINGS, benchmark=True)
        self._sequence = 0

    def __enter__(self) -> Self:
        self._sandbox.start()
        try:
            self._fill()
        except BaseException:
            self._sandbox.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._sandbox.stop()

    def _fill(self) -> None:
        self.source = Cluster("source", {"bootstrap.servers": self._sandbox.source_servers}, _ADMIN_SECONDS)
        self.target = Cluster("target", {"bootstrap.servers": self._sandbox.target_servers}, _ADMIN_SECONDS)
        report.progress(f"{self.size.topics} topics of {self.size.partitions} partitions")
        for some in _parts(self.size.names, _AT_ONCE):
            made = self.source.admin.create_topics([NewTopic(name, self.size.partitions, 1) for name in some])
            for future in made.values():
                future.result(timeout=_ADMIN_SECONDS)
        wait_until(lambda: len(self.source.topics()) >= self.size.topics, _ADMIN_SECONDS, "the topics to be visible")
        self.pipeline = self._pipeline()
        report.progress(f"{self.size.groups} groups")
        self._commit_groups()
        report.progress("control topics and index")
        ensure_control_topics(self.pipeline, self.target)
        wait_until(
            lambda: set(control_topics(self.pipeline)) <= set(self.target.topics()), _ADMIN_SECONDS, "control topics"
        )
        self._ids = {name: found.topic_id for name, found in self.source.describe(self.size.names).items()}
        self.cluster = self.source.cluster_id()
        for _ in range(_RECORDS_PER_KEY):
            self.commit_all()
        self._write_index()

    def _pipeline(self) -> Pipeline:
        pipelines = self.folder / "pipelines"
        pipelines.mkdir()
        os.environ["K2K_HOME"] = str(self.folder / "home")
        on = "enabled"
        source, target = self._sandbox.source_servers, self._sandbox.target_servers
        document = {
            "name": "large",
            "features": {"exactlyOnce": on, "offsetMapping": on, "autoCreateTopics": on, "autoCreateControlTopics": on},
            "source": {
                "kafka": {"common": {"bootstrap.servers": source}, "consumer": {"group.id": "k2k.large"}},
            },
            "target": {"kafka": {"common": {"bootstrap.servers": target}}},
            "replication": [{"source": {"topic": "europe[.].*"}}, {"sink": {"topic": "source", "partition": "source"}}],
            "groups": {"consumerGroups": "group-.*"},
        }
        path = pipelines / "large.yaml"
        path.write_text(json.dumps(document))
        return load_pipeline([path])

    def _commit_groups(self) -> None:
        names, partitions = self.size.names, range(self.size.partitions)
        for number in range(self.size.groups):
            read = [names[(number + other) % len(names)] for other in range(_TOPICS_PER_GROUP)]
            at = {TopicPartition(topic, partition): 0 for topic in read for partition in partitions}
            commit(self._sandbox.source_servers, f"group-{number:04}", at)

    # -- what a copy leaves -----------------------------------------------------------------------------------------

    def commit_all(self, stopped: StopReason | None = None) -> None:
        """Writes a record to each partition of the source, and commits that all of it is copied."""
        self._sequence += 1
        writer = Producer({"bootstrap.servers": self._sandbox.source_servers, "linger.ms": 50})
        for name in self.size.names:
            for partition in range(self.size.partitions):
                writer.produce(name, b"an order", partition=partition)
            writer.poll(0)
        if writer.flush(_ADMIN_SECONDS):
            raise TimeoutError("the source does not take a record for each partition")
        servers, topic = self._sandbox.target_servers, self.pipeline.coordination.commit.topic
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "transactional.id": "ticks"})
        producer.init_transactions(_ADMIN_SECONDS)
        producer.begin_transaction()
        for name, topic_id in self._ids.items():
            for partition in range(self.size.partitions):
                record = self._commit(TopicPartition(name, partition), topic_id, stopped)
                producer.produce(topic, key=record.key_bytes(), value=record.value_bytes())
            producer.poll(0)
        producer.commit_transaction(_ADMIN_SECONDS)

    def _commit(self, at: TopicPartition, topic_id: str, stopped: StopReason | None) -> CommitRecord:
        return CommitRecord(
            group=self.pipeline.group,
            cluster=self.cluster,
            source=at,
            kind="release" if stopped else "commit",
            pipeline=self.pipeline.name,
            position=self._sequence,
            leader_epoch=0,
            source_topic_id=topic_id,
            target_topic=at.topic,
            target_topic_id=topic_id,
            target_end=2 * self._sequence,
            generation=0,
            slot=at.partition % 2,
            sequence=self._sequence,
            time=int(time.time() * 1000),
            records=self._sequence,
            bytes_=100 * self._sequence,
            runs=self._sequence,
            began=0,
            log_start=0,
            reason=stopped,
        )

    def claim_all(self, run: str | None) -> LivingInstance:
        """An instance without end that copies everything: a `k2k start`, or a run of the sync job."""
        commits = self.pipeline.coordination.commit.topic
        commit_topic_id = self.target.describe([commits])[commits].topic_id
        instance = new_instance(self.pipeline, 2, commit_topic_id, continuous=True, run=run)
        generation = write_instance(self.pipeline, instance)
        claims = [
            Claim(topic_id, partition, f"k2k.large.{slot}", f"{generation}-{partition}", generation, slot, name)
            for name, topic_id in self._ids.items()
            for partition in range(self.size.partitions)
            for slot in [partition % 2]
        ]
        now = int(time.time() * 1000)
        group = self.pipeline.group
        write_records(self.pipeline, [(claim.key_bytes(group), claim.value_bytes(now)) for claim in claims])
        return LivingInstance(self.pipeline, generation, claims)

    def mapper(self, run: str | None) -> MapperHeartbeat:
        """A mapper that moves all groups."""
        heartbeat = MapperHeartbeat.new(self.pipeline.name, self.pipeline.group, run)
        self.beat(heartbeat)
        return heartbeat

    def beat(self, mapper: MapperHeartbeat) -> None:
        """A heartbeat of a mapper."""
        write_record(self.pipeline, mapper.key_bytes(), mapper.now().value_bytes())

    def _write_index(self) -> None:
        """The manifest alone: a tick reads no more of the index."""
        mappings = self.pipeline.offset_mapping.topic
        positions = [
            NotedPosition(
                topic=name, partition=partition, source_topic_id=topic_id, position=1, records=1, began=0, log_start=0,
                generation=0, sequence=1,
            )
            for name, topic_id in self._ids.items()
            for partition in range(self.size.partitions)
        ]  # fmt: skip
        root = Path(str(index_directory(self.pipeline.name)))
        root.mkdir(parents=True)
        switch(
            root,
            Manifest(
                pipeline=self.pipeline.name,
                group=self.pipeline.group,
                source_cluster=self.cluster,
                target_cluster=self.target.cluster_id(),
                mapping_topic=mappings,
                mapping_topic_id=self.target.describe([mappings])[mappings].topic_id,
                offsets={},
                directory="generated",
                number=1,
                time=int(time.time() * 1000),
                records_read=len(positions),
                runs=len(positions),
                mapped=len(positions),
                positions=positions,
            ),
        )


class LivingInstance(NamedTuple):
    """An instance that copies.

    Attributes:
        pipeline: What it copies.
        generation: Its own.
        claims: What it has claimed.
    """

    pipeline: Pipeline
    generation: int
    claims: Sequence[Claim]

    def beat(self) -> None:
        """A heartbeat of each slot."""
        now, group = time_value(int(time.time() * 1000)), self.pipeline.group
        slots = sorted({claim.slot for claim in self.claims})
        write_records(self.pipeline, [(heartbeat_key(group, self.generation, slot), now) for slot in slots])

    def leave(self) -> None:
        """Releases everything."""
        write_records(self.pipeline, [(claim.key_bytes(self.pipeline.group), None) for claim in self.claims])


def _parts(everything: Sequence[T], most: int) -> list[Sequence[T]]:
    return [everything[first : first + most] for first in range(0, len(everything), most)]
