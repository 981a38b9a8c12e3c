"""Helpers of takeover tests: they write to a source, and read the assignment topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from k2k_assets.control.assignment_records import Claim
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import ReadRecord, Record, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, commit_records
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.proof.verifying import ID, verify

# Longer than any test waits: with this grace window, a takeover has not waited for it.
_FOR_EVER_SECONDS = 600


def pipeline_of(
    clusters: KafkaSandbox, directory: Path, topics: list[str], mode: str = "enabled", grace: int = _FOR_EVER_SECONDS
) -> Pipeline:
    """A pipeline with claims of its own, and a grace window in seconds."""
    features = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"}
    return make_pipeline(
        directory,
        clusters.source_servers,
        clusters.target_servers,
        topics,
        features=features,
        coordination={"assignment": {"topic": unique("claims"), "graceWindow": f"{grace} seconds"}},
    )


def topic_of(pipeline: Pipeline) -> str:
    assert pipeline.selection.literal
    return pipeline.selection.literal[0]


class Flow:
    """Writes records with ids to a topic, a little at a time, and says how much there is."""

    def __init__(self, clusters: KafkaSandbox, topic: str, partitions: int = 4) -> None:
        self._servers, self._topic, self._partitions = clusters.source_servers, topic, partitions
        self.written = 0

    def write(self, count: int = 50) -> None:
        for partition in range(self._partitions):
            values = [b"%d-%d" % (partition, self.written + i) for i in range(count)]
            records = [Record(value=value, headers=[(ID, value)]) for value in values]
            produce(self._servers, self._topic, records, partition)
        self.written += count * self._partitions


def assert_exact(clusters: KafkaSandbox, pipeline: Pipeline) -> None:
    """Once each, in order, with true mappings; and no generation commits after a higher one of its partition."""
    for topic in pipeline.selection.literal or ():
        assert_same_content(clusters.source_servers, topic, clusters.target_servers)
        assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic)
    by_partition: dict[Any, list[int]] = {}
    for record in sorted(commit_records(pipeline, clusters.target_servers), key=lambda r: r.time):
        by_partition.setdefault(record.source, []).append(record.generation)
    assert all(generations == sorted(generations) for generations in by_partition.values())


def assert_all_copied(clusters: KafkaSandbox, pipeline: Pipeline, overtaken: bool) -> int:
    """As the mode promises; returns how many records there are.

    Args:
        clusters: Both.
        pipeline: Its topics have records with ids.
        overtaken: Whether an instance was overtaken before it had committed all: at least once what it had queued may
            come late.
    """
    if pipeline.features.exactly_once:
        assert_exact(clusters, pipeline)
    servers = clusters.source_servers, clusters.target_servers
    verdict = verify(pipeline, *servers, pipeline.selection.literal or (), zombies=overtaken)
    assert verdict.problems == []
    return verdict.records


def copied_to(pipeline: Pipeline, clusters: KafkaSandbox) -> int:
    """Source offsets behind which all is copied; the topic has no gaps."""
    newest = {record.source: record.position for record in commit_records(pipeline, clusters.target_servers)}
    return sum(newest.values())


def await_written(clusters: KafkaSandbox, pipeline: Pipeline, *flows: Flow) -> None:
    """Waits until all that was written is committed as copied."""
    written = sum(flow.written for flow in flows)
    wait_until(lambda: copied_to(pipeline, clusters) == written, 120, "all to be copied")


def assignments(clusters: KafkaSandbox, pipeline: Pipeline) -> Assignments:
    state = Assignments()
    for record in read_all(
        clusters.target_servers, pipeline.coordination.assignment.topic, isolation="read_uncommitted"
    ):
        state.apply(pipeline.group, record.offset, record.key, record.value)
    return state


def claimed_topics(clusters: KafkaSandbox, pipeline: Pipeline) -> set[str]:
    """The topics of which some slot has claimed partitions."""
    return {claim.topic for claim in assignments(clusters, pipeline).claims.values()}


def held_by(clusters: KafkaSandbox, pipeline: Pipeline, partitions: int) -> int:
    """The generation that holds all of so many partitions; -1: none, or more than one."""
    holders = [claim.generation for claim in assignments(clusters, pipeline).claims.values()]
    return holders[0] if len(holders) == partitions and len(set(holders)) == 1 else -1


def owners(clusters: KafkaSandbox, pipeline: Pipeline) -> set[int]:
    """Which instances hold partitions: 1 is the oldest that is known, 2 the next."""
    state = assignments(clusters, pipeline)
    numbers = {generation: number for number, generation in enumerate(sorted(state.instances), 1)}
    return {numbers.get(claim.generation, 0) for claim in state.claims.values()}


def share(clusters: KafkaSandbox, pipeline: Pipeline, topics: list[str]) -> bool:
    """Whether the second instance holds the first topic, the first one the other, and no id is of both."""
    claims = list(assignments(clusters, pipeline).claims.values())
    ids: dict[str, set[int]] = {}
    for claim in claims:
        ids.setdefault(claim.transactional_id, set()).add(claim.generation)
    older = min((claim.generation for claim in claims), default=-1)
    wanted = {(topic, partition, topic == topics[1]) for topic in topics for partition in range(2)}
    held = {(claim.topic, claim.partition, claim.generation == older) for claim in claims}
    return len(claims) == 4 and held == wanted and all(len(users) == 1 for users in ids.values())


def assignment_records(clusters: KafkaSandbox, pipeline: Pipeline, kind: str) -> list[ReadRecord]:
    """All that were written of a kind, tombstones left out."""
    topic = pipeline.coordination.assignment.topic
    records = read_all(clusters.target_servers, topic, isolation="read_uncommitted")
    return [r for r in records if r.value is not None and json.loads(r.key or b"")["kind"] == kind]


def claims_written(clusters: KafkaSandbox, pipeline: Pipeline) -> int:
    """How often a partition was claimed: once more each time that its slot was fenced."""
    return len(assignment_records(clusters, pipeline, "claim"))


def generations(clusters: KafkaSandbox, pipeline: Pipeline) -> int:
    """How often a generation was drawn."""
    return len(assignment_records(clusters, pipeline, "instance"))


def silences_before_claims(clusters: KafkaSandbox, pipeline: Pipeline) -> dict[tuple[str, int], float]:
    """How long the second instance's slot had been silent when the first one claimed a partition back, the first time.

    By the times that the writers gave to their records: a silence begins later, when somebody has read its last sign.
    """
    _, second, *_ = (r.offset for r in assignment_records(clusters, pipeline, "instance"))
    records = [*assignment_records(clusters, pipeline, "claim"), *assignment_records(clusters, pipeline, "beat")]
    owners: dict[tuple[str, int], tuple[int, int]] = {}
    signs: dict[tuple[int, int], int] = {}
    silences: dict[tuple[str, int], float] = {}
    for record in sorted(records, key=lambda record: record.offset):
        head = json.loads(record.key or b"")
        if head["kind"] == "beat":
            signs[head["generation"], head["slot"]] = record.timestamp
            continue
        claim = parsed(record)
        if claim.generation == second:
            owners[claim.what] = claim.owner
            signs[claim.owner] = record.timestamp
        elif claim.generation > second:
            silences.setdefault(claim.what, (record.timestamp - signs[owners[claim.what]]) / 1000)
    return silences


def parsed(record: ReadRecord) -> Claim:
    return Claim.parse(json.loads(record.key or b""), record.value or b"", record.offset, "the assignment topic")
