"""The heartbeats of a run that has no instance or mapper that writes any: it starts, or works on the offset mappings.

Dagster's default launcher does not watch its processes: the record of a run whose process was killed stays in progress.
The sensor would wait for it, and meanwhile nobody would copy, or update and check the mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from k2k_assets.control.assignment_records import run_heartbeat_key, time_value
from k2k_assets.control.commit_log import now_ms
from k2k_assets.coordination.heartbeats import Heartbeats
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import Event, Listener, PartitionClaimed

Beside = Callable[[Listener], Listener]
"""Wraps the listener of a copy."""

SILENT_SECONDS = 60.0
"""A run that has written no heartbeat for so long is dead. From one step to the next a process may have to start."""


def run_heartbeats(pipeline: Pipeline, run_id: str) -> Heartbeats:
    """The heartbeats of a run, to be written while one of its steps works.

    They begin when the assignment topic exists. A producer may not write to it before: brokers that create topics by
    themselves would create it with other settings.

    Args:
        pipeline: The pipeline.
        run_id: Id of the run.
    """
    key, is_there = run_heartbeat_key(pipeline.group, run_id), False

    def beat() -> tuple[bytes, bytes] | None:
        nonlocal is_there
        is_there = is_there or _has_assignment_topic(pipeline)
        return (key, time_value(now_ms())) if is_there else None

    return Heartbeats(pipeline, beat, leaves_none=True)


@contextmanager
def heartbeats_until_copying(pipeline: Pipeline, run_id: str) -> Iterator[Beside]:
    """The heartbeats of a run that copies, from now on until one of its slots has claimed a partition.

    From then on slots write their own, and the instance while it has none. Until then Spark starts, which may take
    minutes on a cluster.

    Args:
        pipeline: The pipeline.
        run_id: Id of the run.

    Yields:
        Wraps the listener of the copy, so that the heartbeats end in time.
    """
    with run_heartbeats(pipeline, run_id) as heartbeats:

        def beside(listener: Listener) -> Listener:
            def listen(event: Event) -> None:
                if isinstance(event, PartitionClaimed):
                    heartbeats.end()
                listener(event)

            return listen

        yield beside


def _has_assignment_topic(pipeline: Pipeline) -> bool:
    topic = pipeline.coordination.assignment.topic
    with Cluster("target", pipeline.client_properties("target", "admin")) as target:
        return topic in target.describe([topic])
