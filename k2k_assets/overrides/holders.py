"""Who copies the partitions now, as the assignment topic tells it: an override waits for nobody, it asks first."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from k2k_assets import json_codec
from k2k_assets.deadline import Deadline
from k2k_assets.errors import ClusterUnreachable
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.assignment.records import PARTITION
from k2k_assets.topic_partition import TopicPartition

_TIMEOUT = 30.0


@dataclass(slots=True)
class Holders:
    """Claims that were not released, and signs of life.

    Attributes:
        claims: Generation, by claim id, transactional id, topic id and partition.
        instances: Host and process, by generation: those not yet fenced.
        beats: Time of the last sign of life of a generation that gives some, milliseconds since the epoch.
    """

    claims: dict[tuple[str, str, str, int], int] = field(default_factory=dict)
    instances: dict[int, str] = field(default_factory=dict)
    beats: dict[int, int] = field(default_factory=dict)

    def apply(self, group: str, message: Message) -> None:
        """Takes in one record of the assignment topic; what cannot be read is for the slots to report."""
        try:
            head = json_codec.decode(message.key(), "key")
            body = json_codec.decode(message.value(), "value") if message.value() is not None else None
        except ValueError:
            return
        if head.get("group") == group:
            self._apply(head, body, message)

    def _apply(self, head: dict[str, Any], body: dict[str, Any] | None, message: Message) -> None:
        kind = head.get("kind")
        if kind == "instance":
            name = str(head.get("instance"))
            self.instances = {g: words for g, words in self.instances.items() if not words.startswith(name)}
            if body is not None:
                where = f"{name}: pipeline {body.get('pipeline')} on {body.get('host')}, process {body.get('pid')}"
                self.instances[message.offset()] = where
        elif kind == "claim":
            self._apply_claim(head, body, message)
        elif kind == "beat" and body is not None:
            self.beats[int(head["generation"])] = message.timestamp()[1]

    def _apply_claim(self, head: dict[str, Any], body: dict[str, Any] | None, message: Message) -> None:
        what = str(head["transactionalId"]), str(head["topicId"]), int(head["partition"])
        if body is None:
            self.claims.pop((str(head["claim"]), *what), None)
            return
        # Who claims an id anew has fenced its former holder, so a slot's last claim of a partition is its only one.
        self.claims = {key: generation for key, generation in self.claims.items() if key[1:] != what}
        generation = int(body["generation"])
        self.claims[str(head["claim"]), *what] = generation
        if generation in self.beats:
            self.beats[generation] = message.timestamp()[1]

    def of(self, wanted: Mapping[tuple[str, int], TopicPartition], silence: float) -> dict[str, list[TopicPartition]]:
        """The partitions that each live instance holds.

        Args:
            wanted: By topic id and partition.
            silence: Seconds after which an instance that gave signs of life counts as dead.
        """
        now = int(time.time() * 1000)
        held: dict[str, list[TopicPartition]] = {}
        for (_, _, topic_id, partition), generation in self.claims.items():
            tp = wanted.get((topic_id, partition))
            silent = generation in self.beats and now - self.beats[generation] > silence * 1000
            if tp is not None and generation in self.instances and not silent:
                held.setdefault(self.instances[generation].partition(": ")[2], []).append(tp)
        return {words: sorted(partitions) for words, partitions in held.items()}


def read_holders(pipeline: Pipeline, target: Cluster) -> Holders:
    """Reads the assignment topic to its end, uncommitted: a dead owner's open transaction hides nothing.

    Raises:
        ClusterUnreachable: Not in time.
    """
    at = TopicPartition(pipeline.coordination.assignment.topic, PARTITION)
    starts, ends = target.offsets([at], "earliest"), target.offsets([at], "latest")
    holders = Holders()
    with LogReader(pipeline.client_properties("target", "consumer"), starts, committed_only=False) as reader:
        try:
            for batch in reader.read_until(ends, Deadline(_TIMEOUT)):
                for message in batch:
                    holders.apply(pipeline.group, message)
        except NotReadToTheEnd as behind:
            raise ClusterUnreachable(f"the assignment topic on the {target} was not read: {behind}") from None
    return holders
