"""Named interleavings of mappings: the worst moment of each, with the rule that prevents damage and without it.

The table is in `docs/guarantees.md`. Without its rule each one must cause damage, or the test proves nothing. Copied
by the real engine, judged by the content of both clusters.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.position_translator import PositionTranslator
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.kafka.groups import CommittedOffset, GroupOffsets
from k2k_assets.mapping.algebra import translate
from k2k_assets.mapping.algebra.in_memory_mapping import InMemoryMapping, Placed
from k2k_assets.mapping.algebra.translate import TranslationState
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.plan import slot_of
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation.groups import Answer
from k2k_assets_tests.support.brokers.kafka import (
    PATIENCE,
    create_topic,
    delete_records,
    produce,
    read_all,
    topics,
    unique,
)
from k2k_assets_tests.support.copies.copying import copy, mapping_records
from k2k_assets_tests.support.copies.interleaving import RULE, at_step, copy_alone, ends_are, pipeline_of
from k2k_assets_tests.support.copies.pipelines import NEVER_TIMED_OUT
from k2k_assets_tests.support.proof.exactness import BothSides
from k2k_assets_tests.support.suite.storms import MODES

pytestmark = pytest.mark.integration

Positions = dict[TopicPartition, int]


def answers(pipeline: Pipeline, *asked: Positions) -> list[Answer]:
    """Where groups at these positions belong in the only target partition."""
    groups = {
        str(n): GroupOffsets(str(n), {tp: CommittedOffset(offset) for tp, offset in at.items()})
        for n, at in enumerate(asked)
    }
    with (
        both_clusters(pipeline) as (source, target),
        PositionTranslator(pipeline, source, target) as translator,
    ):
        found = translator.translate(groups).answers
    return [found[str(n)][0] for n in range(len(asked))]


@MODES
@RULE
def test_mappings_that_retention_has_deleted(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool, mode: str
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("forgotten"))
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode=mode)
    for n in range(2):
        produce(source, topic, [b"%d" % i for i in range(10 * n, 10 * n + 10)])
        copy_alone(pipeline)
    mappings = pipeline.offset_mapping.topic
    first = min(read_all(target, mappings), key=lambda record: record.timestamp)
    delete_records(target, mappings, first.partition, first.offset + 1)
    assert [r.covered_from for r in mapping_records(pipeline, target)] == [10]
    if not rule:  # the rule: an answer is given only where the coverage is unbroken
        monkeypatch.setattr(translate, "unbroken", lambda mapping, positions, records: np.full(positions.shape, True))

    tp = TopicPartition(topic, 0)
    lost, known = answers(pipeline, {tp: 4}, {tp: 14})
    markers = 1 if mode == "enabled" else 0  # of the first transaction
    assert (known.offset, known.state) == (14 + markers, TranslationState.EXACT)
    both = BothSides.read(source, [topic], target, [topic])
    if rule:
        assert (lost.offset, lost.state) == (-1, TranslationState.UNKNOWN)
    else:
        assert lost.state is TranslationState.EXACT
        assert both.skipped({tp: 4}, tp, lost.offset) == 6, "a guess skips six records"


@RULE
def test_slots_that_commit_out_of_order_into_one_target_partition(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    """The records of the first lie before those of the second, and are committed, and mapped, after them."""
    source, target = clusters.source_servers, clusters.target_servers
    while True:
        late, early = unique("late"), unique("early")
        if slot_of(TopicPartition(late, 0), 2) != slot_of(TopicPartition(early, 0), 2):
            break
    of_late, of_early = TopicPartition(late, 0), TopicPartition(early, 0)
    for topic in (late, early):
        create_topic(source, topic)
        produce(source, topic, [b"%s-%d" % (topic.encode(), n) for n in range(10)])
    mixed = create_topic(target, unique("mixed"))
    patient: dict[str, Any] = {"producer": NEVER_TIMED_OUT, "commit": {"syncTimeout": "11 minutes"}}
    pipeline = pipeline_of(clusters, tmp_path, [late, early], sink={"static": mixed}, **patient)
    written, asked = threading.Event(), threading.Event()

    def hold() -> None:
        written.set()
        assert asked.wait(3 * PATIENCE)

    at_step(monkeypatch, "after settle", hold, topic=late)
    at_step(monkeypatch, "before write", lambda: written.wait(PATIENCE), topic=early)
    copying = threading.Thread(target=lambda: copy(pipeline, cores=2), daemon=True)
    copying.start()
    wait_until(lambda: [r.topic for r in _mappings_if_any(pipeline, target)] == [early], PATIENCE, "the second slot")
    try:
        if not rule:
            # the rule: no answer lies behind the last stable offset of the target partition
            ends_are(monkeypatch, mixed, "stable", "latest")
        group = {of_late: 0, of_early: 10}
        (answer,) = answers(pipeline, group)
    finally:
        monkeypatch.undo()
        asked.set()
        copying.join(4 * PATIENCE)

    both = BothSides.read(source, [late, early], target, [mixed])
    at = TopicPartition(mixed, 0)
    assert both.copies[of_late, at][:, 1].max() < both.copies[of_early, at][:, 1].min()
    if rule:
        assert (answer.offset, both.skipped(group, at, answer.offset)) == (0, 0)
    else:
        assert both.skipped(group, at, answer.offset) == 10, "all that the first slot had not committed yet is skipped"
    (now,) = answers(pipeline, group)
    assert (now.offset, now.state) == (0, TranslationState.EXACT)


def _mappings_if_any(pipeline: Pipeline, target: str) -> Sequence[Any]:
    return mapping_records(pipeline, target) if pipeline.offset_mapping.topic in topics(target) else []


@RULE
def test_a_range_that_is_copied_again(
    clusters: KafkaSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    """At least once, with a position that cannot be read: from the start again. The later mapping counts."""
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("again"), 2)
    produce(source, topic, [b"%d" % n for n in range(10)], 0)
    produce(source, topic, [b"of another partition"], 1)
    policies = {"onControlMessageDeserializationError": "ignore"}
    pipeline = pipeline_of(clusters, tmp_path, [topic], mode="disabled", errorHandling=policies)
    copy_alone(pipeline)
    commits = pipeline.coordination.commit.topic
    key = next(r.key for r in read_all(target, commits) if r.key and b'"partition":0' in r.key)
    produce(target, commits, [(key, b"{garbage")], 0)
    produce(source, topic, [b"%d" % n for n in range(10, 15)], 0)
    copy_alone(pipeline)
    assert [r.value for r in read_all(target, topic, 0)] == [b"%d" % n for n in [*range(10), *range(15)]]
    if not rule:
        _the_first_mapping_counts(monkeypatch)

    tp = TopicPartition(topic, 0)
    both = BothSides.read(source, [topic], target, [topic])
    (answer,) = answers(pipeline, {tp: 5})
    assert both.skipped({tp: 5}, tp, answer.offset) == 0
    if rule:
        assert (answer.offset, both.reread({tp: 5}, tp, answer.offset)) == (15, 0)
    else:
        assert (answer.offset, both.reread({tp: 5}, tp, answer.offset)) == (5, 5), "five records are read again"


def _the_first_mapping_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule: a copy that starts again cancels what was mapped at and after its start."""
    real = InMemoryMapping.extend

    def extend(self: InMemoryMapping, placed: Sequence[Placed], mark_every: int) -> None:
        kept, end = [], self.covered_end
        for each in placed:
            if each.record.covered_from >= end:
                kept.append(each)
                end = each.record.covered_to
        if kept:
            real(self, kept, mark_every)

    monkeypatch.setattr(InMemoryMapping, "extend", extend)
