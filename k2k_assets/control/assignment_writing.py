"""Writes the records of the assignment topic that need no fencing, outside transactions: instances, stops, starts."""

from __future__ import annotations

import os
import socket
import uuid
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from k2k_assets.control.assignment_records import (
    PARTITION,
    InstanceRecord,
    instance_key,
    instance_value,
    settings_key,
    settings_value,
    stop_key,
    stop_value,
)
from k2k_assets.control.commit_log import now_ms
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.errors import NotAllowed
from k2k_assets.kafka import clients
from k2k_assets.pipeline import Pipeline

_WRITE_TIMEOUT = 30.0


def new_instance(
    pipeline: Pipeline, slots: int, commit_topic_id: str, continuous: bool = False, run: str | None = None
) -> InstanceRecord:
    """Makes the instance record of this process, with a new name."""
    return InstanceRecord(
        instance=uuid.uuid4().hex,
        pipeline=pipeline.name,
        slots=slots,
        commit_topic_id=commit_topic_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        time=now_ms(),
        continuous=continuous,
        run=run,
    )


def write_instance(pipeline: Pipeline, instance: InstanceRecord) -> int:
    """Writes the settings record of a pipeline and then an instance record; returns the generation."""
    settings = CopySettings.of(pipeline)
    return write_records(
        pipeline,
        [
            (settings_key(pipeline.group, settings.fingerprint), settings_value(settings)),
            (instance_key(pipeline.group, instance.instance), instance_value(instance)),
        ],
    )[-1]


def write_stop(pipeline: Pipeline, generation: int, again: bool = False) -> None:
    """Asks the slots of a generation to end: the driver has no other channel to a running Spark task.

    Args:
        pipeline: Names the group.
        generation: The generation to stop.
        again: Whether the instance goes on with a new generation, which will claim the same partitions again.
    """
    write_record(pipeline, stop_key(pipeline.group, generation), stop_value(now_ms(), again))


def write_record(pipeline: Pipeline, key: bytes, value: bytes | None) -> int:
    """Writes one record of the assignment topic; returns its offset.

    Raises:
        ClusterUnreachable: The target did not accept the record.
        NotAllowed: The principal may not write to the topic.
    """
    return write_records(pipeline, [(key, value)])[0]


def write_records(pipeline: Pipeline, records: list[tuple[bytes, bytes | None]]) -> list[int]:
    """Writes records of the assignment topic in order; returns their offsets.

    Raises:
        ClusterUnreachable: The target did not accept a record.
        NotAllowed: The principal may not write to the topic.
    """
    return AssignmentWriter(pipeline).write(records)


class AssignmentWriter:
    """Writes records of the assignment topic with one client for many calls.

    Args:
        pipeline: Names the topic.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._topic = pipeline.coordination.assignment.topic
        properties = pipeline.client_properties("target", "producer")
        self._properties = {k: v for k, v in properties.items() if k != "transaction.timeout.ms"}
        self._producer: Producer | None = None

    def write(self, records: list[tuple[bytes, bytes | None]]) -> list[int]:
        """Writes records in order; returns their offsets. Raises as `write_records`; the next call has a new client."""
        if not records:
            return []
        try:
            return self._write(records)
        except BaseException:
            self._producer = None
            raise

    def _write(self, records: list[tuple[bytes, bytes | None]]) -> list[int]:
        answers: list[tuple[KafkaError | None, int]] = []

        def answer(error: KafkaError | None, message: Message) -> None:
            answers.append((error, -1 if error else cast("int", message.offset())))

        producer = self._connected()
        for key, value in records:
            producer.produce(self._topic, value, key, PARTITION, answer)
        producer.flush(_WRITE_TIMEOUT + 5)
        failure = next((error for error, _ in answers if error is not None), None)
        if failure is not None and clients.is_about_rights(failure):
            said = f"the target does not let {self._topic} be written: {failure.str()}{clients.advice(failure)}"
            raise NotAllowed(said)
        if failure is not None or len(answers) < len(records):
            why = failure.str() if failure else "no answer in time"
            raise clients.unreachable("target", self._properties, f"writing to {self._topic} failed: {why}")
        return [offset for _, offset in answers]

    def _connected(self) -> Producer:
        if self._producer is None:
            settings = {"enable.idempotence": True, "acks": "all", "message.timeout.ms": int(_WRITE_TIMEOUT * 1000)}
            producer = clients.producer(self._properties, settings)
            try:
                clients.know_cluster(producer, _WRITE_TIMEOUT)
            except KafkaException as error:
                raise clients.unreachable("target", self._properties, clients.error_of(error).str()) from None
            self._producer = producer
        return self._producer
