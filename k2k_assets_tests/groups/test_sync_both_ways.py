"""Groups that are kept in step where both sides are written: nothing is skipped, and what is read again is counted.

Judged by what the topics hold, at every offset; no mapping is used for it.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from k2k_assets.cli.mapper_commands.group_status import summary
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync, sync_once
from k2k_assets.groups.report import Line, PollResult
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline.sections.bidirectional import Bidirectional
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation import translate_offsets
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.brokers.kafka import read_all, unique
from k2k_assets_tests.support.copies.both_ways import (
    OneWay,
    again_and_skipped,
    both_ways,
    groups_everywhere,
    interleave,
    left_behind,
    of_groups,
    prefix_of,
    settle,
    topic_on_both,
    write_some,
)
from k2k_assets_tests.support.copies.copying import Running, copy, in_processes
from k2k_assets_tests.support.copies.pipelines import MODES, NEVER_TIMED_OUT

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def only_line(result: PollResult, group: str) -> Line:
    (line,) = result.lines(group)
    return line


@MODES
@pytest.mark.parametrize("marker", ["pipeline", "cluster"])
def test_groups_skip_nothing_and_exact_is_exact(clusters: KafkaSandbox, tmp_path: Path, mode: str, marker: str) -> None:
    topic = topic_on_both(clusters)
    ways = both_ways(clusters, tmp_path, [topic], mode, marker)
    interleave(ways, topic)
    settle(ways)
    for way in ways:
        here, there = read_all(way.target, topic), read_all(way.source, topic)
        standing = groups_everywhere(way.source, topic)
        pipeline = of_groups(way, prefix_of(standing))
        result = sync_once(pipeline)
        words = set()
        for group, at in standing.items():
            line = only_line(result, group)
            assert line.target, (group, line)
            again, skipped = again_and_skipped(here, there, at, line.target.offset)
            assert skipped == [], (group, line)
            assert line.again == again, (group, line)
            assert (line.decision is CommitDecision.EXACT) == (again == 0), (group, line)
            assert held(way.target, group)[TopicPartition(topic, 0)][0] == line.target.offset
            words.add(line.decision)
        assert words == {CommitDecision.EXACT, CommitDecision.MAY_REPEAT}
        with both_clusters(pipeline) as (source, target):
            verdicts = check_groups(pipeline, result, source, target)
        assert {verdict.judgement for verdict in verdicts.values()} == {Judgement.PASSED}, verdicts
        for at, answer in zip(standing.values(), translate_offsets(pipeline, topic, 0, standing.values()), strict=True):
            line = only_line(result, f"{prefix_of(standing)}-{at}")
            assert line.target
            assert (answer.to_offset, answer.state, answer.read_again) == (
                line.target.offset, line.decision.value, line.again,
            )  # fmt: skip


def test_without_the_mappings_of_the_pipeline_back_nothing_is_guessed(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = topic_on_both(clusters)
    missing = {"mappingTopic": unique("no-mappings")}
    forth, back = both_ways(clusters, tmp_path, [topic], bidirectional={"reverse": missing})
    write_some(back, topic, "b", 3)
    write_some(forth, topic, "a", 3)
    settle((forth, back))
    group = unique("unproven")
    commit(forth.source, group, {TopicPartition(topic, 0): 2})
    pipeline = of_groups(forth, group)
    result = sync_once(pipeline)
    assert only_line(result, group).decision is CommitDecision.UNKNOWN
    assert held(forth.target, group) == {}
    why = result.unproven[TopicPartition(topic, 0)]
    assert missing["mappingTopic"] in why
    assert "'bidirectional.reverse'" in why
    assert why in summary(pipeline.name, result)
    with both_clusters(pipeline) as (source, target):
        verdict = check_groups(pipeline, result, source, target)[group]
        assert verdict.judgement is Judgement.WARNED
        assert missing["mappingTopic"] in verdict.summary
        commit(forth.target, group, {TopicPartition(topic, 0): 3})
        (plan,) = failback_plans(pipeline, source, target, back.pipeline)
        assert plan.rows[0].offset >= 0

    reverse = {
        "mappingTopic": back.pipeline.offset_mapping.topic,
        "commitTopic": back.pipeline.coordination.commit.topic,
    }
    named = Bidirectional.model_validate({"reverse": reverse})
    told = pipeline.model_copy(update={"bidirectional": named})
    assert only_line(sync_once(told), group).decision is CommitDecision.FOREIGN
    assert translate_offsets(told, topic, 0, [2])[0].state in ("exact", "may be read again")
    with both_clusters(told) as (source, target):
        assert failback_plans(told, source, target) == [plan]


@pytest.mark.parametrize("copied_back", [True, False])
def test_a_group_that_skips_what_was_written_on_the_target_fails_its_check(
    clusters: KafkaSandbox, tmp_path: Path, copied_back: bool
) -> None:
    """The position that counts the copied records alone, as it was committed before."""
    topic = topic_on_both(clusters)
    ways = forth, back = both_ways(clusters, tmp_path, [topic])
    settle(ways, 1)
    write_some(back, topic, "b", 4)
    write_some(forth, topic, "a", 5)
    copy(forth.pipeline)
    if copied_back:
        copy(back.pipeline)
    group = unique("skipping")
    commit(forth.source, group, {TopicPartition(topic, 0): 3})
    pipeline = of_groups(forth, group)
    result = sync_once(pipeline)
    line = only_line(result, group)
    assert line.target
    assert (line.target.offset, line.decision, line.again) == (0, CommitDecision.MAY_REPEAT, 3)
    with both_clusters(pipeline) as (source, target):
        assert check_groups(pipeline, result, source, target)[group].passed
        skipping = 4 + 3
        (row,) = result.decisions[group].rows
        wrong = result.decisions[group]._replace(rows=[row._replace(offset=skipping, decision=CommitDecision.EXACT)])
        commit(forth.target, group, {TopicPartition(topic, 0): skipping}, result.version.metadata("k2k_"))
        verdict = check_groups(pipeline, replace(result, decisions={group: wrong}), source, target)[group]
    assert verdict.judgement is Judgement.FAILED
    assert "4 records that were written on the target are skipped" in verdict.offenders[0].what


@MODES
def test_groups_move_there_and_back_while_both_run_and_are_killed(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    topic = topic_on_both(clusters)
    ways = both_ways(clusters, tmp_path, [topic], mode, producer=NEVER_TIMED_OUT, coordination={
        "commit": {"batchSize": 50, "syncTimeout": "11 minutes"}, "assignment": {"graceWindow": "2 seconds"},
    })  # fmt: skip
    forth = ways[0]
    partition = TopicPartition(topic, 0)
    stop, polled = threading.Event(), list[PollResult]()
    standing: dict[str, int] = {}
    prefix = unique("moving")
    values: list[bytes] = []

    def traffic() -> None:
        number = 0
        while not stop.wait(0.1):
            for n, way in enumerate(ways):
                values.extend(write_some(way, topic, f"{'ab'[n]}{number}", 4))
            number += 1

    def stand() -> None:
        """A group that has read all that can be read now."""
        here = read_all(forth.source, topic)
        if here:
            group = f"{prefix}-{len(standing)}"
            standing[group] = here[-1].offset + 1 if len(standing) % 2 else here[len(here) // 2].offset
            commit(forth.source, group, {partition: standing[group]})

    pipeline = of_groups(forth, prefix)
    writer = threading.Thread(target=traffic)
    runners = [in_processes() for _ in ways]
    running = [Running(way.pipeline, 1, runner[0]) for way, runner in zip(ways, runners, strict=True)]
    ended = threading.Event()
    mapper = threading.Thread(target=sync, args=(pipeline, ended), kwargs={"observer": polled.append})
    writer.start()
    try:
        wait_until(lambda: all(one.copied() for one in running), 120, "copying")
        mapper.start()
        for one, runner in zip((*running, *running), (*runners, *runners), strict=True):
            before = one.copied()
            stand()
            wait_until(lambda one=one, before=before: one.copied() != before or one.error, 120, "copying")  # type: ignore[misc]
            runner[1]()
            stand()
        # Whatever is committed meanwhile may be early, and skips nothing.
        stop.set()
        writer.join()
        wanted = len(values)

        def is_everywhere() -> bool:
            return all(len({r.value for r in read_all(way.target, topic)}) == wanted for way in ways)

        wait_until(is_everywhere, 120, "all records to be on both sides")
        for result in list(polled):
            assert_skips_nothing(result, forth, topic)
    finally:
        stop.set()
        ended.set()
        for one in running:
            one.end()
        if mapper.is_alive():
            mapper.join()
    settle(ways)
    result = sync_once(pipeline)
    here, there = read_all(forth.target, topic), read_all(forth.source, topic)
    for group, at in standing.items():
        line = only_line(result, group)
        assert line.target
        again, skipped = again_and_skipped(here, there, at, line.target.offset)
        assert mode == "disabled" or not skipped
        assert mode == "disabled" or ((line.decision is CommitDecision.EXACT) == (again == 0) and line.again == again)
    with both_clusters(pipeline) as (source, target):
        verdicts = check_groups(pipeline, result, source, target)
        assert {v.judgement for v in verdicts.values()} == {Judgement.PASSED}, verdicts
        # They read half of what is left there, and go back.
        reached = {group: (line.target.offset + here[-1].offset) // 2
                   for group in standing if (line := only_line(result, group)).target}  # fmt: skip
        for group, at in reached.items():
            commit(forth.target, group, {partition: at})
        plans = failback_plans(pipeline, source, target)
    assert {plan.group for plan in plans} == reached.keys()
    for plan in plans:
        again, skipped = again_and_skipped(there, here, reached[plan.group], plan.rows[0].offset)
        assert mode == "disabled" or not skipped, plan
        assert mode == "disabled" or (plan.rows[0].decision in ("exact", "kept")) == (again == 0)


def assert_skips_nothing(result: PollResult, way: OneWay, topic: str) -> None:
    """No record that a group has not read lies below its position for the last time."""
    here, there = read_all(way.target, topic), read_all(way.source, topic)
    for group in result.groups:
        line = only_line(result, group)
        if line.target:
            (source,) = line.sources
            assert left_behind(here, there, source.offset, line.target.offset) == [], (group, line)
