"""Reads and writes the assignment topic: who is the newest instance of a group, and whether it was asked to stop."""

from __future__ import annotations

import os
import socket
import time
import uuid
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException, Message

from k2k_assets.deadline import Deadline
from k2k_assets.errors import ClusterUnreachable, Refused, Superseded
from k2k_assets.kafka import clients
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.log_reader import LogReader, NotReadToTheEnd
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.assignment_records import (
    PARTITION,
    Assignments,
    Instance,
    instance_key,
    instance_value,
    stop_key,
    stop_value,
)
from k2k_assets.topic_partition import TopicPartition

_WRITE_TIMEOUT = 30.0


class AssignmentTail:
    """Follows the assignment topic for one group.

    Records are read uncommitted: instance and stop records are written outside transactions, and an open
    transaction of somebody else must not hide them.

    Args:
        pipeline: Names topic and group.
        target: The target cluster.
    """

    def __init__(self, pipeline: Pipeline, target: Cluster) -> None:
        self._group = pipeline.group
        self._at = TopicPartition(pipeline.coordination.assignment.topic, PARTITION)
        self._target = target
        self.state = Assignments()
        starts = target.offsets([self._at], "earliest")
        self._reader = LogReader(
            pipeline.client_properties("target", "consumer"), starts, committed_only=False, follow=True
        )

    def catch_up(self, timeout: float = 30.0) -> Assignments:
        """Reads to the end as it is now.

        Raises:
            ClusterUnreachable: Not in time.
        """
        ends = self._target.offsets([self._at], "latest")
        try:
            for batch in self._reader.read_until(ends, Deadline(timeout)):
                self._apply(batch)
        except NotReadToTheEnd as behind:
            raise ClusterUnreachable(f"the assignment topic on the {self._target} was not read: {behind}") from None
        return self.state

    def look(self) -> Assignments:
        """What came since the last look, without waiting."""
        self._apply(self._reader.poll(0))
        return self.state

    def ensure_newest(self, generation: int) -> None:
        """Refuses to go on where a newer instance exists.

        Raises:
            Superseded: One does.
        """
        newest = self.state.newest()
        if newest > generation:
            other = self.state.instances[newest]
            raise Superseded(
                f"a newer instance of group {self._group} has taken over: pipeline {other.pipeline} on {other.host}, "
                f"process {other.pid} (generation {newest}, this one is {generation})"
            )

    def close(self) -> None:
        """Lets go of the client."""
        self._reader.close()

    def __enter__(self) -> AssignmentTail:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _apply(self, batch: list[Message]) -> None:
        for message in batch:
            try:
                self.state.apply(self._group, message.offset(), message.key(), message.value())
            except ValueError as error:
                raise Refused(f"{self._at.topic} on the {self._target} cannot be read: {error}") from None


def new_instance(pipeline: Pipeline, slots: int, commit_topic_id: str) -> Instance:
    """This process as an instance."""
    return Instance(
        instance=uuid.uuid4().hex,
        pipeline=pipeline.name,
        slots=slots,
        commit_topic_id=commit_topic_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        time=int(time.time() * 1000),
    )


def write_instance(pipeline: Pipeline, instance: Instance) -> int:
    """Writes an instance record; returns its generation."""
    instance = replace(instance, time=int(time.time() * 1000))
    return write_record(pipeline, instance_key(pipeline.group, instance.instance), instance_value(instance))


def forget_instance(pipeline: Pipeline, instance: str) -> None:
    """Removes the record of an instance whose slots have been fenced."""
    write_record(pipeline, instance_key(pipeline.group, instance), None)


def write_stop(pipeline: Pipeline, generation: int) -> None:
    """Asks the slots of a generation to end: the driver has no other channel to a running Spark task."""
    write_record(pipeline, stop_key(pipeline.group, generation), stop_value(int(time.time() * 1000)))


def write_record(pipeline: Pipeline, key: bytes, value: bytes | None) -> int:
    """Writes one record of the assignment topic, outside transactions; returns its offset.

    Raises:
        ClusterUnreachable: It was not taken.
    """
    answers: list[tuple[KafkaError | None, int]] = []

    def answer(error: KafkaError | None, message: Message) -> None:
        answers.append((error, -1 if error else message.offset()))

    settings = {"enable.idempotence": True, "acks": "all", "message.timeout.ms": int(_WRITE_TIMEOUT * 1000)}
    properties = pipeline.client_properties("target", "producer")
    properties = {k: v for k, v in properties.items() if k != "transaction.timeout.ms"}
    producer = clients.producer(properties, settings)
    topic = pipeline.coordination.assignment.topic
    try:
        clients.know_cluster(producer, _WRITE_TIMEOUT)
    except KafkaException as error:
        raise clients.unreachable("target", properties, clients.error_of(error).str()) from None
    producer.produce(topic, value, key, PARTITION, answer)
    producer.flush(_WRITE_TIMEOUT + 5)
    failure, offset = answers[0] if answers else (None, -1)
    if failure is not None or offset < 0:
        why = failure.str() if failure else "no answer in time"
        raise clients.unreachable("target", properties, f"writing to {topic} failed: {why}")
    return offset
