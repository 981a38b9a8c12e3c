"""A slot's memory does not grow with its partitions: queues are those of a client, not of each partition."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from random import randbytes
from typing import Any

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.factory import TRANSPORTS
from k2k_assets.transport.interface import Position
from k2k_assets.transport.librdkafka import control_writer
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import PROCESSES
from k2k_assets_tests.support.copies.pipelines import make_pipeline

PARTITIONS = 20
RECORD, RECORDS = 10_000, 1000
"""Bytes of a record, and records of a partition: 200 MB in all."""
MOST = 160_000_000
"""Bytes: the queues of one consumer and one producer, and a transaction. Far less than is there to be read."""
TRANSACTION = 800
_SECONDS = 400.0


def test_memory_is_bounded_however_much_there_is_to_read(
    clusters: KafkaSandbox, tmp_path: Path, real_transport: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("large"), PARTITIONS)
    create_topic(target, topic, PARTITIONS)
    noise = [randbytes(RECORD) for _ in range(50)]
    for partition in range(PARTITIONS):
        produce(source, topic, [noise[n % len(noise)] for n in range(RECORDS)], partition)
    pipeline = make_pipeline(tmp_path, source, target, [topic], features={"exactlyOnce": "enabled"})
    answers: Any = PROCESSES.Queue()
    child = PROCESSES.Process(target=_copy_all, args=(real_transport, pipeline, topic, answers), daemon=True)
    child.start()
    copied, grown = answers.get(timeout=_SECONDS)
    child.join(_SECONDS)
    assert copied == PARTITIONS * RECORDS
    assert grown < MOST


def _copy_all(name: str, pipeline: Pipeline, topic: str, answers: Any) -> None:
    """Reads slowly at first, so that all queues fill up; tells how many records it has copied, and what that took."""
    before = _peak()
    control_writer.AMBIGUOUS_AFTER_SECONDS = _SECONDS  # a busy broker is not a lost answer
    transport = TRANSPORTS[name](pipeline)
    sink = transport.open_sinks(True, 1_000_000).open_sink(unique("id"))
    sink.open()
    source = transport.open_source()
    source.assign({TopicPartition(topic, partition): Position(0) for partition in range(PARTITIONS)})
    copied = open_records = 0
    time.sleep(3)
    while copied < PARTITIONS * RECORDS:
        for chunk in source.poll(TRANSACTION, 1.0).chunks:
            chunk.target_topic, chunk.target_partition = topic, chunk.source.partition
            if not open_records:
                sink.begin()
            sink.write(chunk)
            open_records += chunk.count
            copied += chunk.count
        if open_records >= TRANSACTION or copied == PARTITIONS * RECORDS:
            sink.settle()
            sink.commit()
            open_records = 0
    answers.put((copied, _peak() - before))
    source.close()
    sink.close()


def _peak() -> int:
    """The most memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
