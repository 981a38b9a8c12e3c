"""G7 through Dagster: damage stops only its own topic; the log, the failure and a check say so."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from k2k_assets.cli.tool import cli
from k2k_assets.core.words import plural
from k2k_assets.orchestration import metadata as keys
from k2k_assets.overrides.request import Wanted
from k2k_assets.replication.driver import generations
from k2k_assets.replication.driver.planning import plan_slots
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    ReadRecord,
    create_topic,
    delete_records,
    delete_topic,
    produce,
    read_all,
)
from k2k_assets_tests.support.brokers.kafka import topics as topics_of
from k2k_assets_tests.support.copies.copying import assert_same_content
from k2k_assets_tests.support.copies.interleaving import cut_log
from k2k_assets_tests.support.dagster.fixture import DagsterFixture, failure_of
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = [pytest.mark.integration, pytest.mark.own_clusters, pytest.mark.spark]

_COMMAND = re.compile(r"k2k-tool set -f FILE -o [\w.-]+:(?:all|\d+):\w+(?: --[\w-]+)*")


def _nothing(clusters: KafkaSandbox, topic: str) -> None:
    pass


class Damage(NamedTuple):
    """What happens to a topic of which three records were copied, and ten are written after that.

    Attributes:
        code: That of the reason.
        partitions: How many the topic has; the records are in the first one.
        before: What is done before the ten are written.
        after: What is done behind them.
        words: What was found, with the offsets; `{topic}` stands for its name.
        remedies: The arguments of the commands that are told, behind `-o`.
        planned: What is done when the run has planned its slots, and none of them has begun.
    """

    code: str
    partitions: int
    before: Callable[[KafkaSandbox, str], object]
    after: Callable[[KafkaSandbox, str], object]
    words: Sequence[str]
    remedies: Sequence[str]
    planned: Callable[[KafkaSandbox, str], object] = _nothing


def _delete_past_the_position(clusters: KafkaSandbox, topic: str) -> None:
    delete_records(clusters.source_servers, topic, 0, 8)


def _create_anew(clusters: KafkaSandbox, topic: str) -> None:
    delete_topic(clusters.source_servers, topic)
    create_topic(clusters.source_servers, topic)


def _write_beside(clusters: KafkaSandbox, topic: str) -> None:
    produce(clusters.target_servers, topic, [b"foreign"] * 2, 0)


def _cut_the_source(clusters: KafkaSandbox, topic: str) -> None:
    cut_log(clusters.source, topic, 2)


def _delete_the_source(clusters: KafkaSandbox, topic: str) -> None:
    delete_topic(clusters.source_servers, topic)


def _delete_the_target(clusters: KafkaSandbox, topic: str) -> None:
    delete_topic(clusters.target_servers, topic)


DAMAGES = {
    "pruned": Damage(
        "records-deleted",
        1,
        _nothing,
        _delete_past_the_position,
        ["records 3 to 7 were deleted from the source before they were copied", "it now starts at 8"],
        ["{topic}:0:earliest"],
    ),
    "anew": Damage(
        "source-recreated",
        1,
        _create_anew,
        _nothing,
        ["the source topic was deleted and created anew (topic id ", "so offsets before 3 mean other records"],
        ["{topic}:all:earliest --accept-new-topic"],
    ),
    "fewer": Damage(
        "fewer-partitions",
        2,
        _create_anew,
        _nothing,
        ["the source topic has only 1 partition left: it was deleted and created anew"],
        ["{topic}:all:earliest --accept-new-topic"],
    ),
    "foreign": Damage(
        "foreign-records",
        1,
        _write_beside,
        _nothing,
        ["2 records at {topic}-0 offsets 3 to 5 were not written by this pipeline", "onForeignWriter: ignore"],
        ["{topic}:0:current --accept-foreign-records"],
    ),
    "lost": Damage(
        "target-recreated",
        1,
        _delete_the_target,
        _nothing,
        ["the target topic {topic} was deleted and created anew (topic id ", "what was copied before 3 is gone"],
        ["{topic}:all:earliest --accept-new-topic", "{topic}:all:current --accept-new-topic"],
    ),
    "cut": Damage(
        "source-diverged",
        1,
        _cut_the_source,
        _nothing,
        ["the source log was truncated at 2, below position 3, and has grown again", "records 2 to 2 that were copied"],
        ["{topic}:0:2", "{topic}:0:3"],
    ),
    "deleted": Damage(
        "source-deleted",
        1,
        _nothing,
        _nothing,
        ["the source topic {topic} is gone. If it was deleted on purpose, take it out of the pipeline"],
        ["{topic}:all:earliest --accept-new-topic"],
        _delete_the_source,
    ),
}
STORMY = {"cut"}  # a broker is started again


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("enabled", DAMAGES.keys() - STORMY),
        # At-least-once: records that somebody wrote between two runs stop nothing.
        *in_storms(("enabled", STORMY), ("disabled", DAMAGES.keys() - {"foreign"})),
    ],
    ids=["enabled", "enabled, with a broker down", "disabled"],
)
def test_each_damage_stops_its_own_topic_by_name_with_range_and_remedy(
    clusters: KafkaSandbox,
    place: Path,
    prefix: str,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    names: Set[str],
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    good, bad = f"{prefix}.good", {f"{prefix}.{name}": DAMAGES[name] for name in sorted(names)}
    topics = [good, *bad]
    for topic in topics:
        create_topic(source, topic, bad[topic].partitions if topic in bad else 1)
        produce(source, topic, [b"a"] * 2, 0)
        produce(source, topic, [b"a"], 0)  # a batch of its own
    fixture = DagsterFixture(clusters, place, topics, mode=mode)
    assets = [fixture.names.topic_key(topic) for topic in topics]
    assert fixture.run(assets).success
    assert {topic: check.passed for topic, check in fixture.check_topics().items()} == dict.fromkeys(topics, True)

    _do(clusters, bad, good, monkeypatch)
    held = {topic: _records(target, topic) for topic in bad}
    capsys.readouterr()
    result = fixture.run(assets)
    log = capsys.readouterr().err

    assert not result.success
    assert [event.asset_key for event in result.get_asset_materialization_events()] == assets[:1]
    shown = fixture.metadata(assets[0])
    assert (shown[keys.RECORDS], shown[keys.LAG]) == (10, 0)
    assert assert_same_content(source, good, target) == 13
    assert {topic: _records(target, topic) for topic in bad} == held
    failure, (reasons, codes) = failure_of(result), (_stopped(result, "reason"), _stopped(result, "stop code"))
    told = {topic: fixture.shown_check(topic) for topic in bad}  # by the run itself
    checks = fixture.check_topics()
    assert f"{len(bad)} of {len(topics)} topics were stopped, the others were copied" in failure
    assert good not in failure
    assert checks[good].passed
    assert reasons.keys() == bad.keys()
    assert codes == {topic: damage.code for topic, damage in bad.items()}
    for topic, damage in bad.items():
        reason = reasons[topic]
        _assert_told(reason, topic, damage, fixture.path)
        assert f"{topic}: {reason}" in failure
        assert reason in log
        for check in (told[topic], checks[topic]):
            assert check is not None
            assert not check.passed
            assert f"1 of {plural(damage.partitions, 'partition is', 'partitions are')} stopped: {reason}" in (
                check.description or ""
            )


def _do(clusters: KafkaSandbox, damages: Mapping[str, Damage], good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All damages, and ten more records for every topic."""
    for topic, damage in damages.items():
        damage.before(clusters, topic)
    for topic in (good, *damages):
        produce(clusters.source_servers, topic, [b"b"] * 10, 0)
    for topic, damage in damages.items():
        damage.after(clusters, topic)
    left = list(damages.items())

    def meanwhile(*args: Any, **rest: Any) -> list[SlotPlan]:
        plans = plan_slots(*args, **rest)
        while left:
            topic, damage = left.pop()
            damage.planned(clusters, topic)
        return plans

    monkeypatch.setattr(generations, "plan_slots", meanwhile)


def _assert_told(reason: str, topic: str, damage: Damage, pipeline_file: Path) -> None:
    """What was found, with its offsets, and commands that `k2k-tool` understands."""
    assert reason.startswith(f"{topic}-0: [{damage.code}] ")
    for words in damage.words:
        assert words.format(topic=topic) in reason
    commands = _COMMAND.findall(reason)
    assert commands == [f"k2k-tool set -f FILE -o {remedy.format(topic=topic)}" for remedy in damage.remedies]
    for command in commands:
        _ensure_understood(command.replace("FILE", str(pipeline_file)))


def _records(servers: str, topic: str) -> list[ReadRecord]:
    """None where there is no such topic: a run makes it again before it finds that it is another one."""
    return read_all(servers, topic) if topic in topics_of(servers) else []


def _stopped(result: dg.ExecuteInProcessResult, column: str) -> dict[str, str]:
    """Topic -> a column of the table that the failure carries of stopped topics."""
    (failed,) = result.filter_events(lambda event: event.is_step_failure)
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    table = failure.metadata[keys.STOPPED]
    assert isinstance(table, dg.TableMetadataValue)
    return {str(row.data["topic"]): str(row.data[column]) for row in table.records}


def _ensure_understood(command: str) -> None:
    """Parses a command as `k2k-tool` does, and runs nothing."""
    program, name, *arguments = shlex.split(command)
    assert program == "k2k-tool"
    parsed = cli.commands[name].make_context(name, arguments)
    for offset in parsed.params["offsets"]:
        Wanted.parse(offset)
