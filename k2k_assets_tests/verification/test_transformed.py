"""The checks compare through the rules of `transform`: what these make of records is no fault, and all else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from k2k_assets.cli.tool import run as k2k_tool
from k2k_assets.control.mapping_records import DroppedBy
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.orchestration.assets.groups.group_sync import limited_to
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.content.tally import DIFFERENT, DROPPED_WRONGLY, NOT_COPIED, NOT_DROPPED
from k2k_assets.verification.groups.check import check_groups
from k2k_assets.verification.mapping_checks import CHECKS, Evidence, run_check
from k2k_assets.verification.verdict import Verdict
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.hand_copy import HandCopy
from k2k_assets_tests.support.copies.pipelines import MODES
from k2k_assets_tests.support.copies.transformed import (
    FAILING,
    FUNCTION,
    Through,
    mixed,
    through_dead_letters,
    through_function,
    through_rules,
    to_dead_letters,
    transforming,
    write_orders,
)
from k2k_assets_tests.verification.world import NOW, World

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]


def verdicts(spark: SparkSession, pipeline: Pipeline) -> dict[str, Verdict]:
    with both_clusters(pipeline) as (source, target):
        index = update_index(spark, pipeline, source, target)
        return {name: run_check(name, Evidence(pipeline, spark, index, source, target)) for name in CHECKS}


def failed(found: dict[str, Verdict]) -> dict[str, str]:
    return {name: each.summary for name, each in found.items() if not each.passed}


def ensure_groups_are_exact(
    clusters: KafkaSandbox, pipeline: Pipeline, topic: str, through: Through, prefix: str = "readers"
) -> None:
    """Groups go to the first copy of a record that they have not read, the check says so, and they come back."""
    read = read_all(clusters.source_servers, topic)
    there = read_all(clusters.target_servers, topic)
    copied = [record for record in read if through(record) is not None]
    to = {original.offset: copy_.offset for original, copy_ in zip(copied, there, strict=True)}
    back = {there_: here for here, there_ in to.items()}
    standing = {unique(prefix): at for at in range(0, read[-1].offset + 1, 3)}
    for group, at in standing.items():
        commit(clusters.source_servers, group, {TopicPartition(topic, 0): at})
    chosen = limited_to(pipeline, standing)
    result = sync_once(chosen)
    for group, at in standing.items():
        (row,) = result.decisions[group].rows
        wanted = next((to[r.offset] for r in copied if r.offset >= at), None)
        if wanted is not None:
            assert (row.decision.value, row.offset) == ("exact", wanted), (group, at)
    with both_clusters(pipeline) as (source, target):
        found = check_groups(chosen, result, source, target)
        assert {group: each.summary for group, each in found.items() if not each.passed} == {}
        assert sum(each.counts["compared"] for each in found.values()) > len(standing) // 2
        moved = {group: there[number % len(there)].offset for number, group in enumerate(standing)}
        for group, at in moved.items():
            commit(clusters.target_servers, group, {TopicPartition(topic, 0): at})
        plans = {plan.group: plan for plan in failback_plans(chosen, source, target)}
    for group, at in moved.items():
        (back_row,) = plans[group].rows
        assert back_row.offset is not None
        # What lies between was left out: the next record that has a copy is the one at which the group stood.
        assert next(r.offset for r in copied if r.offset >= back_row.offset) == back[at], (group, at)


@MODES
def test_checks_groups_and_tools_know_what_was_left_out_and_changed(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    path, pipeline = transforming(clusters, tmp_path, [topic], mode, features={"tracingHeaders": {"topic": "enabled"}})
    for first in (0, 40, 80):
        write_orders(clusters.source_servers, topic, first, 40)
        assert copy(pipeline).stopped == {}
        if first < 80:  # the rest is in the mapping topic alone
            found = verdicts(spark, pipeline)
            assert failed(found) == {}
            assert found["content"].counts["dropped"] > 15
    read = read_all(clusters.source_servers, topic)
    ensure_groups_are_exact(clusters, pipeline, topic, through_rules)
    found = verdicts(spark, pipeline)
    assert failed(found) == {}
    left_out = [record for record in read if through_rules(record) is None]
    assert b'"US"' in (left_out[1].value or b"")
    counts = found["content"].counts
    assert (counts["dropped"], counts["equal"]) == (len(left_out), 120 - len(left_out))
    for record, says in (
        (
            next(r for r in left_out if b'"FR"' in (r.value or b"")),
            "left out on purpose, by the rule 'transform[0].filter'",
        ),
        (next(r for r in read if through_rules(r) is not None), ""),
    ):
        place = ["--topic", topic, "--partition", "0", "--offset", str(record.offset)]
        capsys.readouterr()
        assert k2k_tool(["translate", "-f", str(path), *place, "--json"]) == 0
        (answer,) = json.loads(capsys.readouterr().out)["answers"]
        assert (answer["state"], answer.get("droppedBy")) == ("exact", "transform[0].filter" if says else None)
        assert k2k_tool(["show", "-f", str(path), "-o", f"{topic}:0:{record.offset}"]) == 0
        shown = capsys.readouterr().out
        assert says in shown
        assert "differs" not in shown


def function_beside(directory: Path, name: str = "", text: str = FUNCTION) -> str:
    name = name or unique("functions").replace("-", "_")
    (directory / f"{name}.py").write_text(text)
    return name


@MODES
def test_a_function_is_asked_again_as_long_as_its_code_is_the_same(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, name = create_topic(clusters.source_servers, unique("orders")), function_beside(tmp_path)
    plain = create_topic(clusters.source_servers, unique("plain"))
    rules = [{"pattern": topic, "python": f"{name}:large"}]
    path, pipeline = transforming(clusters, tmp_path, [topic, plain], mode, rules)
    values = [b"value %d" % n * (1 + n % 2) for n in range(60)]
    produce(clusters.source_servers, topic, [Record(b"k", value, [("h", value)]) for value in values])
    produce(clusters.source_servers, plain, values[:7])
    assert copy(pipeline).stopped == {}
    found = verdicts(spark, pipeline)
    assert failed(found) == {}
    assert (found["content"].counts["equal"], found["content"].counts["dropped"]) == (37, 30)
    ensure_groups_are_exact(clusters, pipeline, topic, through_function)

    function_beside(tmp_path, name, FUNCTION.replace(", 8)", ", 9)"))
    changed = load_pipeline([path])
    produce(clusters.source_servers, topic, [Record(b"k", b"value %d" % n, [("h", b"")]) for n in range(100, 110)])
    assert copy(changed).stopped == {}
    found = verdicts(spark, changed)
    assert failed(found) == {}
    counts = found["content"].counts
    assert 7 <= counts["equal"] + counts["dropped"] <= 17, "the others: not comparable"
    assert counts["not_comparable"] == 60, "of the topic with the function"
    for shown, says in ((topic, f"Not compared: transform[0].python: the code of {name}:large"), (plain, "equals")):
        capsys.readouterr()
        assert k2k_tool(["show", "-f", str(path), "-o", f"{shown}:0:1"]) == 0
        assert says in capsys.readouterr().out


@pytest.mark.slow
def test_a_fault_is_not_held_against_a_function_that_was_corrected_since(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession
) -> None:
    """What it made of records depended on more than the records; nobody can tell any more what the copy should be."""
    limit = "int(pathlib.Path(__file__).with_name('limit').read_text())"
    text = f"import pathlib\n{FUNCTION.replace(', 8)', f', {limit})')}"
    (tmp_path / "limit").write_text("8")
    topic, name = create_topic(clusters.source_servers, unique("orders")), function_beside(tmp_path, text=text)
    rules = [{"pattern": topic, "python": f"{name}:large"}]
    path, pipeline = transforming(clusters, tmp_path, [topic], "enabled", rules)
    produce(clusters.source_servers, topic, [b"value %d" % n for n in range(100, 120)])
    assert copy(pipeline).stopped == {}
    assert failed(verdicts(spark, pipeline)) == {}
    (tmp_path / "limit").write_text("9")
    assert "content" in failed(verdicts(spark, pipeline))

    function_beside(tmp_path, name)
    corrected = load_pipeline([path])
    for more in (200, 300):
        produce(clusters.source_servers, topic, [b"value %d" % n for n in range(more, more + 5)])
        assert copy(corrected).stopped == {}
        found = verdicts(spark, corrected)
        assert failed(found) == {}
        assert found["content"].counts["equal"] >= 5


@MODES
def test_what_was_copied_under_other_rules_is_judged_by_these(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    path, pipeline = transforming(clusters, tmp_path, [topic], mode)
    write_orders(clusters.source_servers, topic, 0, 40)
    copy(pipeline)
    document = yaml.safe_load(path.read_text())
    del document["transform"]
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    pipeline = load_pipeline([path])
    assert not pipeline.transform
    write_orders(clusters.source_servers, topic, 40, 40)
    copy(pipeline)
    found = verdicts(spark, pipeline)
    assert failed(found) == {}
    read = read_all(clusters.source_servers, topic)
    left_out = [r for r in read[:40] if through_rules(r) is None]
    assert found["content"].counts["dropped"] == len(left_out)
    assert found["content"].counts["equal"] == 80 - len(left_out)

    # Groups on both sides of the change, too.
    standing = {unique("readers"): read[number].offset for number in (3, 20, 39, 40, 60)}
    for group, at in standing.items():
        commit(clusters.source_servers, group, {TopicPartition(topic, 0): at})
    result = sync_once(limited_to(pipeline, standing))
    with both_clusters(pipeline) as clients:
        groups = check_groups(pipeline, result, *clients)
    assert {group: each.summary for group, each in groups.items() if each.counts["offending"]} == {}


@MODES
def test_checks_groups_and_tools_know_what_went_to_a_topic_for_dead_letters(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, dead = create_topic(clusters.source_servers, unique("orders")), unique("dead")
    path, pipeline = transforming(clusters, tmp_path, [topic], mode, to_dead_letters(dead))
    for first in (0, 25):
        produce(clusters.source_servers, topic, [mixed(n) for n in range(first, first + 25)])
        assert copy(pipeline).stopped == {}
    letters = read_all(clusters.target_servers, dead)
    assert [record.value for record in letters] == [b"no JSON %d" % n for n in FAILING]

    found = verdicts(spark, pipeline)

    assert failed(found) == {}
    left_out = [r for r in read_all(clusters.source_servers, topic) if through_dead_letters(r) is None]
    assert len(left_out) > len(letters), "a filter leaves others out"
    counts = found["content"].counts
    assert (counts["dropped"], counts["equal"]) == (len(left_out), 50 - len(left_out))
    ensure_groups_are_exact(clusters, pipeline, topic, through_dead_letters)
    assert k2k_tool(["show", "-f", str(path), "-o", f"{topic}:0:{FAILING[-1]}"]) == 0
    assert "left out on purpose, by the rule 'transform[0].deadLetters'" in capsys.readouterr().out


MASKED = {"pattern": ".*", "filter": {"value": "n", "in": list(range(8))}, "mask": [{"value": "s", "with": "*"}]}


def original(number: int) -> Record:
    return Record(b"k", b'{"n": %d, "s": "secret %d"}' % (number, number), [], NOW + number)


def made(number: int) -> Record:
    return original(number)._replace(value=b'{"n":%d,"s":"*"}' % number)


@MODES
@pytest.mark.parametrize(
    ("copies", "runs", "dropped", "faults"),
    [
        ([made(n) for n in range(8)], [(0, 0, 8)], {"transform[0].filter": (8, 10)}, {}),
        ([*(made(n) for n in range(7)), original(7)], [(0, 0, 8)], {"transform[0].filter": (8, 10)}, {7: DIFFERENT}),
        ([made(n) for n in range(7)], [(0, 0, 7)], {"transform[0].filter": (7, 10)}, {7: DROPPED_WRONGLY}),
        ([made(n) for n in range(9)], [(0, 0, 9)], {"transform[0].filter": (9, 10)}, {8: NOT_DROPPED}),
        ([made(n) for n in range(8)], [(0, 0, 8)], {}, {8: NOT_COPIED, 9: NOT_COPIED}),
        (
            [made(n) for n in range(8)], [(0, 0, 8)], {"transform[1].filter": (8, 10)},
            {8: DROPPED_WRONGLY, 9: DROPPED_WRONGLY},
        ),
    ],
    ids=["right", "not masked", "left out wrongly", "not left out", "not noted", "by another rule"],
)  # fmt: skip
def test_a_record_that_the_rules_did_not_make_is_found(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, mode: str, copies: list[Record],
    runs: list[tuple[int, int, int]], dropped: dict[str, tuple[int, int]], faults: dict[int | None, str],
) -> None:  # fmt: skip
    world = world_of(clusters, tmp_path, spark, mode, MASKED)
    world.source([original(n) for n in range(10)])
    world.target(copies)
    world.hand.mapping(world.topic, (0, 10), runs, dropped=[DroppedBy(rule, (of,)) for rule, of in dropped.items()])
    world.hand.commit(world.topic, 10, records=len(copies))

    assert faults_found(world) == faults


def world_of(clusters: KafkaSandbox, folder: Path, spark: SparkSession, mode: str, rule: dict[str, Any]) -> World:
    """A topic that is copied by hand, by a pipeline with one rule."""
    topic = create_topic(clusters.source_servers, unique("orders"))
    create_topic(clusters.target_servers, topic)
    _, pipeline = transforming(clusters, folder, [topic], mode, [rule])
    return World(clusters, topic, HandCopy(pipeline), spark)


def faults_found(world: World) -> dict[int | None, str]:
    """What the content check finds, by source offset."""
    verdict = world.verdict("content")
    assert verdict.passed == (not verdict.offenders)
    return {offender.source_offset: offender.what.partition(" ")[2] for offender in verdict.offenders}


TO_DEAD_LETTERS = {
    "pattern": ".*", "mask": [{"value": "s", "with": "*"}], "onError": "deadLetter", "deadLetters": "dead",
}  # fmt: skip


@MODES
@pytest.mark.parametrize(
    ("copied", "rule", "faults"),
    [
        (8, "transform[0].deadLetters", {}),
        (7, "transform[0].deadLetters", {7: DROPPED_WRONGLY}),
        (9, "transform[0].deadLetters", {8: NOT_DROPPED}),
        (8, "transform[0].onError", {8: DROPPED_WRONGLY, 9: DROPPED_WRONGLY}),
        (8, None, {8: NOT_COPIED, 9: NOT_COPIED}),
    ],
    ids=["right", "a good one is a dead letter", "one is copied as it came", "by another rule", "not noted"],
)
def test_a_dead_letter_that_is_none_and_one_that_was_copied_are_found(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession, mode: str,
    copied: int, rule: str | None, faults: dict[int | None, str],
) -> None:  # fmt: skip
    """The first eight records can be masked, the last two are no JSON."""
    no_json = [Record(b"k", b"no JSON %d" % n, [], NOW + n) for n in (8, 9)]
    world = world_of(clusters, tmp_path, spark, mode, TO_DEAD_LETTERS)
    world.source([*(original(n) for n in range(8)), *no_json])
    world.target([*(made(n) for n in range(8)), *no_json][:copied])
    dropped = [DroppedBy(rule, ((copied, 10),))] if rule else []
    world.hand.mapping(world.topic, (0, 10), [(0, 0, copied)], dropped=dropped)
    world.hand.commit(world.topic, 10, records=copied)

    assert faults_found(world) == faults
