"""Failback on real clusters: positions written back to the source's groups, and groups handed back to the mapper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from k2k_assets.cli.offset_mapping import run
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups import failback
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.failback import BackRow, FailbackDecision, FailbackPlan, execute
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka import group_writer
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.kafka.messages import Consumer
from k2k_assets.pipeline import load_pipeline
from k2k_assets.registry.framing import prefix_of
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets.translation import translate_offsets
from k2k_assets.verification.groups.check import check_groups
from k2k_assets_tests.support.brokers.groups import await_held, commit, held, member, open_offset_transaction
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import copy, dying_first
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline

pytestmark = pytest.mark.integration

Registries = tuple[SandboxRegistry, SandboxRegistry]


@pytest.fixture
def both(clusters: KafkaSandbox) -> Iterator[tuple[Cluster, Cluster]]:
    with ExitStack() as stack:
        yield (
            stack.enter_context(Cluster("source", {"bootstrap.servers": clusters.source_servers})),
            stack.enter_context(Cluster("target", {"bootstrap.servers": clusters.target_servers})),
        )


def plan(
    group: str,
    topic: str,
    target_at: int,
    source_at: int,
    word: FailbackDecision = FailbackDecision.EXACT,
    back_to: str | None = None,
    metadata: str = "app",
) -> FailbackPlan:
    here, there = TopicPartition(back_to or topic, 0), ((TopicPartition(topic, 0), CommittedOffset(target_at)),)
    on_source = None if back_to else CommittedOffset(2, metadata)
    return FailbackPlan(group, [BackRow(here, there, on_source, source_at, word, word is FailbackDecision.EXACT)])


@pytest.mark.slow
def test_groups_return_to_the_source(both: tuple[Cluster, Cluster]) -> None:
    source, target = both
    topic = unique("t")
    t0 = TopicPartition(topic, 0)
    for cluster in both:
        create_topic(cluster.servers, topic, 2)
    names = {name: unique(name) for name in ("moved", "kept", "ours", "on-source", "on-target", "gone", "went-on")}
    for name in names.values():
        commit(source.servers, name, {t0: 2, TopicPartition(topic, 1): 5}, "app")
        commit(target.servers, name, {t0: 12})
    plans = [
        plan(names["moved"], topic, 12, 8),
        plan(names["kept"], topic, 12, 2, FailbackDecision.KEPT),
        plan(names["ours"], topic, 12, -1, FailbackDecision.TRANSLATION),
        plan(names["on-source"], topic, 12, 8),
        plan(names["on-target"], topic, 12, 8),
        plan(names["gone"], topic, 12, 8, back_to=unique("no-such-topic")),
        plan(names["went-on"], topic, 11, 8),
    ]
    with (
        member(source.servers, names["on-source"], topic, "classic"),
        member(target.servers, names["on-target"], topic, "consumer"),
    ):
        report = execute(plans, source, target, "k2k_")
    assert report.written == [names["moved"]]
    assert report.unchanged == [names["kept"]]
    assert sorted(report.refused) == sorted([names["on-source"], names["on-target"], names["went-on"]])
    assert "is not what it was when it was looked at" in report.refused[names["went-on"]]
    assert "members on the source cluster" in report.refused[names["on-source"]]
    assert "members on the target cluster" in report.refused[names["on-target"]]
    assert list(report.failed) == [names["gone"]]
    assert "UNKNOWN_TOPIC_OR_PART" in report.failed[names["gone"]]
    assert sorted(report.handed_back) == sorted([names["moved"], names["kept"]])
    on_source = {name: held(source.servers, group)[t0] for name, group in names.items()}
    assert on_source.pop("moved") == (8, "")
    assert set(on_source.values()) == {(2, "app")}
    assert held(source.servers, names["moved"])[TopicPartition(topic, 1)] == (5, "app")
    on_target = {name: held(target.servers, group)[t0] for name, group in names.items()}
    assert on_target["moved"] == on_target["kept"] == (12, f"k2k_0.0@{source.cluster_id()}")
    assert on_target["ours"] == on_target["on-source"] == on_target["on-target"] == on_target["went-on"] == (12, "")


def test_a_member_that_joined_after_the_look_is_found_in_the_partitions_errors(
    both: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = both
    topic, group = create_topic(source.servers, unique("t")), unique("g")
    create_topic(target.servers, topic)
    commit(source.servers, group, {TopicPartition(topic, 0): 2})
    commit(target.servers, group, {TopicPartition(topic, 0): 12})
    monkeypatch.setattr("k2k_assets.groups.failback.list_states", lambda cluster: {})
    with member(source.servers, group, topic, "classic"):
        report = execute([plan(group, topic, 12, 0, metadata="")], source, target, "k2k_")
    assert (report.written, report.handed_back, list(report.refused)) == ([], [], [group])
    assert held(source.servers, group) == {TopicPartition(topic, 0): (2, "")}


def test_what_others_have_committed_since_the_plan_stays(both: tuple[Cluster, Cluster]) -> None:
    """A group may read on, on either side, between the plan and its execution; nobody is a member any more."""
    source, target = both
    topic = unique("t")
    t0 = TopicPartition(topic, 0)
    for cluster in both:
        create_topic(cluster.servers, topic)
    names = {name: unique(name) for name in ("returns", "went-on", "pending-here", "pending-there", "again")}
    for name in names.values():
        commit(source.servers, name, {t0: 2}, "app")
        commit(target.servers, name, {t0: 12})
    plans = [plan(name, topic, 12, 8) for name in names.values()]
    commit(source.servers, names["went-on"], {t0: 50}, "app")
    commit(source.servers, names["again"], {t0: 8})  # by an execution that ended before it had marked the target
    pending = [
        open_offset_transaction(source.servers, names["pending-here"], {t0: 50}),
        open_offset_transaction(target.servers, names["pending-there"], {t0: 60}),
    ]
    report = execute(plans, source, target, "k2k_")
    for each in pending:
        each.commit_transaction(SECONDS)
    assert sorted(report.written) == sorted([names["returns"], names["again"]])
    assert report.refused.keys() == {names[n] for n in ("went-on", "pending-here", "pending-there")}
    assert "somebody else has committed" in report.refused[names["went-on"]]
    assert "are pending in an open transaction" in report.refused[names["pending-here"]]
    assert "are pending in an open transaction" in report.refused[names["pending-there"]]
    on_source = {name: held(source.servers, group)[t0][0] for name, group in names.items()}
    assert on_source == {"returns": 8, "went-on": 50, "pending-here": 50, "pending-there": 2, "again": 8}
    on_target = {name: held(target.servers, group)[t0][0] for name, group in names.items()}
    assert on_target == {"returns": 12, "went-on": 12, "pending-here": 12, "pending-there": 60, "again": 12}


def test_the_first_offsets_on_the_source_that_are_pending_stay(both: tuple[Cluster, Cluster]) -> None:
    """Brokers tell of pending offsets without an earlier commit only where a partition is asked for by name."""
    source, target = both
    topic, group = unique("t"), unique("g")
    t0 = TopicPartition(topic, 0)
    for cluster in both:
        create_topic(cluster.servers, topic)
    commit(target.servers, group, {t0: 12})
    planned = plan(group, topic, 12, 8)
    planned = planned._replace(rows=[row._replace(on_source=None) for row in planned.rows])
    pending = open_offset_transaction(source.servers, group, {t0: 50})
    report = execute([planned], source, target, "k2k_")
    pending.commit_transaction(SECONDS)
    await_held(source.servers, group, {t0: (50, "")})
    assert report.written == []
    assert "are pending in an open transaction" in report.refused[group]


def consume(servers: str, group: str, topic: str, count: int | None) -> list[tuple[int, bytes | None]]:
    """Reads as an application does, with automatic offset reset; commits what it has read, and leaves."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    read: list[tuple[int, bytes | None]] = []
    ended: set[int] = set()

    def done() -> bool:
        message = consumer.poll(0.5)
        if message is not None:
            error = message.error()
            if error is None:
                read.append((message.partition(), message.value()))
                consumer.store_offsets(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        return len(read) == count if count is not None else ended >= {0, 1}

    try:
        consumer.subscribe([topic])
        wait_until(done, SECONDS, f"{group} to read {count or 'all'} records", interval=0)
        if read:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return read


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize("stages", ["no stage", "schema ids and tracing headers"])
def test_there_and_back_every_record_once(
    both: tuple[Cluster, Cluster], tmp_path: Path, request: pytest.FixtureRequest, stages: str, mode: str
) -> None:
    source, target = both
    topic, group = create_topic(source.servers, unique("orders"), 2), unique("billing")
    features = {"exactlyOnce": mode, "offsetMapping": "enabled"}
    options: dict[str, object] = {"groups": {"consumerGroups": [group]}}
    prefix = b""
    if stages != "no stage":
        registries: Registries = request.getfixturevalue("registries")
        client = SchemaRegistryClient({"url": registries[0].url})
        prefix = prefix_of(client.register_schema(f"{topic}-value", Schema('"bytes"', "AVRO")))
        options["registries"] = registries[0].url, registries[1].url
        features["tracingHeaders"] = "enabled"
    for round_ in range(3):
        for partition in range(2):
            values = [prefix + b"%d-%d-%d" % (partition, round_, n) for n in range(30)]
            produce(source.servers, topic, values, partition, unique("tx"))
            produce(source.servers, topic, [prefix + b"aborted"] * 4, partition, abort=True)
    pipeline = make_pipeline(tmp_path, source.servers, target.servers, [topic], features=features, **options)
    copy(pipeline)

    def payloads(read: list[tuple[int, bytes | None]]) -> list[tuple[int, bytes]]:
        return [(partition, (value or b"")[len(prefix) :]) for partition, value in read]

    first = consume(source.servers, group, topic, 50)
    assert [verdict.passed for verdict in check_groups(pipeline, sync_once(pipeline), *both).values()] == [True]
    assert failback_plans(pipeline, source, target)[0].commits == {}  # nothing was read on the target
    second = consume(target.servers, group, topic, 70)
    assert bool(prefix) != any((value or b"").startswith(prefix) for _, value in second), "another id there"
    (plan,) = failback_plans(pipeline, source, target)
    assert {row.decision for row in plan.rows} <= {FailbackDecision.EXACT, FailbackDecision.KEPT}
    before = held(source.servers, group)
    assert execute([plan], source, target, "k2k_").written == [group]
    assert held(source.servers, group) != before
    assert execute(failback_plans(pipeline, source, target), source, target, "k2k_").written == []
    third = consume(source.servers, group, topic, None)
    everything = [(r.partition, r.value) for r in read_all(source.servers, topic)]
    assert sorted(payloads([*first, *second, *third])) == sorted(payloads(everything))

    # And the mapper moves it on the target again.
    moved = sync_once(pipeline)
    assert moved.decisions[group].commits
    assert {row.decision for row in moved.decisions[group].rows} == {CommitDecision.EXACT}
    assert [verdict.passed for verdict in check_groups(pipeline, moved, *both).values()] == [True]
    assert consume(target.servers, group, topic, None) == []


def test_what_was_copied_at_least_once_is_known_after_a_change_to_exactly_once(
    both: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """0 1 2 (3 4) 3 4 | 5: the copies in brackets were sent by a process that died, and nothing maps them."""
    source, target = both
    topic, group = create_topic(source.servers, unique("orders")), unique("billing")
    options: dict[str, Any] = {"features": {"exactlyOnce": "disabled", "offsetMapping": "enabled"}}
    options["groups"] = {"consumerGroups": [group]}
    pipeline = make_pipeline(tmp_path, source.servers, target.servers, [topic], **options)
    produce(source.servers, topic, [b"0", b"1", b"2"])
    copy(pipeline)
    produce(source.servers, topic, [b"3", b"4"])
    copy(pipeline, cores=1, runner=dying_first("settle", 1))
    produce(source.servers, topic, [b"5"])
    exactly_once = pipeline.model_copy(update={"features": pipeline.features.model_copy(update={"exactly_once": True})})
    copy(exactly_once)
    there = [(record.offset, int(record.value or b"")) for record in read_all(target.servers, topic)]
    assert there == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 3), (6, 4), (7, 5)]
    for at, expected in {3: (3, "exact"), 5: (3, "may be read again"), 6: (4, "may be read again")}.items():
        commit(target.servers, group, {TopicPartition(topic, 0): at})
        (plan,) = failback_plans(exactly_once, source, target)
        assert [(row.offset, row.decision) for row in plan.rows] == [expected]
        (answer,) = translate_offsets(exactly_once, topic, 0, [at], reverse=True)
        assert (answer.to_offset, answer.state) == expected


class _Killed(BaseException):
    """What ends a process at once."""


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["at no time", "before it writes", "before it marks the target"])
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_there_and_back_twice_every_record_once(
    both: tuple[Cluster, Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, killed: str
) -> None:
    """With records added on the way, and each failback killed in the middle, and repeated."""
    source, target = both
    topic, group = create_topic(source.servers, unique("orders"), 2), unique("billing")
    features = {"exactlyOnce": mode, "offsetMapping": "enabled"}
    pipeline = make_pipeline(
        tmp_path, source.servers, target.servers, [topic], features=features, groups={"consumerGroups": [group]}
    )
    written, read = 0, list[tuple[int, bytes | None]]()

    def write() -> None:
        nonlocal written
        for partition in range(2):
            values = [b"%d-%d" % (partition, n) for n in range(written, written + 30)]
            produce(source.servers, topic, values, partition, unique("tx"))
            produce(source.servers, topic, [b"aborted"] * 4, partition, abort=True)
        written += 30

    def back(stop: int) -> None:
        """Stops right before a write: the first is to the source, the second to the target."""
        calls = count(1)

        def set_offsets(*given: Any) -> Any:
            if next(calls) == stop:
                raise _Killed
            return group_writer.set_offsets(*given)

        with monkeypatch.context() as patch:
            patch.setattr(failback, "set_offsets", set_offsets)
            execute(failback_plans(pipeline, source, target), source, target, "k2k_")

    for _ in range(2):
        write()
        read += consume(source.servers, group, topic, 25)
        copy(pipeline)
        moved = sync_once(pipeline)
        assert {row.decision for row in moved.decisions[group].rows} == {CommitDecision.EXACT}
        assert [verdict.passed for verdict in check_groups(pipeline, moved, *both).values()] == [True]
        read += consume(target.servers, group, topic, 20)
        write()
        copy(pipeline)
        read += consume(target.servers, group, topic, 20)
        if killed != "at no time":
            with pytest.raises(_Killed):
                back(1 if killed == "before it writes" else 2)
            assert sync_once(pipeline).committed == frozenset(), "the group's own commit on the target stays"
        back(0)
        assert execute(failback_plans(pipeline, source, target), source, target, "k2k_").written == []
    read += consume(source.servers, group, topic, None)
    for partition in range(2):
        values = [value for at, value in read if at == partition]
        assert values == [b"%d-%d" % (partition, n) for n in range(written)]


@pytest.mark.slow
def test_there_and_back_with_a_reverse_pipeline(
    both: tuple[Cluster, Cluster], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What applications wrote to the target is on the source too, behind what was copied there: both maps are used."""
    source, target = both
    topic, group = create_topic(source.servers, unique("orders"), 2), unique("billing")
    there = f"copy.{topic}"
    # Traced: the headers of both ways change no position.
    kept = {"headerReplication": "enabled", "tracingHeaders": "enabled"}
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled", **kept}
    groups = {"consumerGroups": [group]}
    forth = write_pipeline(
        tmp_path, source.servers, target.servers, [topic], sink={"prefix": "copy."}, features=features, groups=groups
    )
    back = write_pipeline(
        tmp_path,
        target.servers,
        source.servers,
        [there],
        sink={"staticMapping": {there: topic}},
        features=features,
        groups=groups,
        errorHandling={"onForeignWriter": "ignore"},
        # There is no filter for copies yet, so it begins after those that came from the source.
        consumer={"group.id": unique("back"), "auto.offset.reset": "latest"},
    )

    def write(servers: str, name: str, words: str, count: int) -> None:
        for partition in range(2):
            values = [b"%s-%d-%d" % (words.encode(), partition, n) for n in range(count)]
            produce(servers, name, values, partition, unique("tx"))
            produce(servers, name, [b"aborted"] * 3, partition, abort=True)

    write(source.servers, topic, "here", 30)
    copy(load_pipeline([forth]))
    copy(load_pipeline([back]))
    first = consume(source.servers, group, topic, 20)
    sync_once(load_pipeline([forth]))
    write(target.servers, there, "there", 10)
    copy(load_pipeline([back]))
    write(source.servers, topic, "here again", 5)
    # 40 of the source's and 20 of the target's own are left there.
    second = consume(target.servers, group, there, 50)

    arguments = ["failback", "-f", str(forth)]
    assert run([*arguments, "--dry-run"]) == 0
    alone = capsys.readouterr().out
    assert run([*arguments, "--dry-run", "--reverse-file", str(back)]) == 0
    assert capsys.readouterr().out != alone, "by one map what was written there would be read again"
    assert run([*arguments, "--reverse-file", str(back)]) == 0
    assert "1 group written to the source" in capsys.readouterr().out
    third = consume(source.servers, group, topic, None)
    everything = [(r.partition, r.value) for r in read_all(source.servers, topic)]
    assert len(everything) == 90
    assert sorted([*first, *second, *third]) == sorted(everything)


def test_a_pipeline_that_is_not_the_reverse_one(both: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, both[0].servers, both[1].servers, ["t"])
    with pytest.raises(Refused, match="is not the reverse one"):
        failback_plans(pipeline, *both, reverse=pipeline)


def test_a_source_that_does_not_answer(both: tuple[Cluster, Cluster]) -> None:
    nobody = Cluster("source", {"bootstrap.servers": "127.0.0.1:1"}, timeout=1)
    with pytest.raises(ClusterUnreachable, match="source cluster"):
        execute([plan("g", "t", 1, 1)], nobody, both[1], "k2k_")
