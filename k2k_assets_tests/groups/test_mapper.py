"""The mapper on real clusters: groups in every state, and two mappers at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from k2k_assets.cli.offset_mapping import run
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable, Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.mapper import sync, sync_once
from k2k_assets.groups.policies import ActiveGroup, MultipleMappings
from k2k_assets.groups.shard import Shard
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.groups.mapper_world import EXACT, World, await_held, line_of, polling, words
from k2k_assets_tests.support.brokers.groups import commit, delete_group, held, member, position
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    create_topic,
    delete_records,
    delete_topic,
    end_offsets,
    produce,
    unique,
)
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_the_life_of_a_group(world: World) -> None:
    group = unique("life")
    t0, t1, t2 = map(world.at, range(3))
    commit(world.source, group, {t0: 10, t1: 20})
    with polling(world.pipeline(f"{group}.*")) as poller:
        first = poller.poll()  # for the first time, and on part of the partitions
        assert first.committed == {group}
        assert first.failed == {}
        assert words(first, group) == {0: "exact", 1: "exact"}
        version = first.version.metadata("k2k_")
        assert await_held(world, group, p0=10, p1=20) == {t0: version, t1: version}
        line = line_of(first, group, t0)
        assert line.target is not None
        assert (line.left_on_source, line.committed) == (end_offsets(world.source, world.topic)[0] - 10, True)
        assert line.target.left == end_offsets(world.target, world.topic)[0] - line.target.offset

        assert poller.poll().committed == frozenset(), "what has not changed costs no commit"

        commit(world.source, group, {t0: 70})  # forward
        forward = poller.poll().version.metadata("k2k_")
        assert await_held(world, group, p0=70, p1=20) == {t0: forward, t1: version}
        commit(world.source, group, {t0: 5})  # a deliberate rewind
        assert poller.poll().committed == {group}
        await_held(world, group, p0=5, p1=20)

        commit(world.source, group, {t1: 30}, "of the application")
        assert line_of(poller.poll(), group, t1).metadata == "of the application"
        await_held(world, group, p0=5, p1=30)

        delete_group(world.target, group)
        assert poller.poll().committed == {group}
        await_held(world, group, p0=5, p1=30)

        end = end_offsets(world.source, world.topic)[2]
        commit(world.source, group, {t2: end + 20})  # beyond the end of the log: from a deleted topic
        assert words(poller.poll(), group)[2] == "unknown"
        world.write()  # beyond what is copied
        assert words(poller.poll(), group)[2] == "ahead"
        await_held(world, group, p0=5, p1=30, p2=end + 20)
        copy(load_pipeline([world.path]))
        assert words(poller.poll(), group)[2] == "exact"
        await_held(world, group, p0=5, p1=30, p2=end + 20)

        delete_records(world.target, world.topic, 0, 60)
        assert words(poller.poll(), group)[0] == "expired"
        wait_until(lambda: held(world.target, group)[t0][0] == 60, 120, "the log start to be committed")

        before = held(world.target, group)
        delete_group(world.source, group)
        assert group not in poller.poll().decisions
        assert held(world.target, group) == before


def test_commits_that_are_not_ours(world: World) -> None:
    group, translated = unique("foreign"), unique("foreign-translated")
    t1, t2 = world.at(1), world.at(2)
    commit(world.source, group, {t1: 50, t2: 50})
    commit(world.source, translated, {t1: 50}, "k2k_7.7")
    commit(world.target, group, {t1: 3}, "of somebody else")
    names, unselected = [group, translated], unique("foreign-unselected")
    commit(world.source, unselected, {t1: 50})
    with polling(world.pipeline(names)) as poller:
        result = poller.poll()
        assert unselected not in result.decisions
        assert words(result, group) == {1: "foreign", 2: "exact"}
        assert words(result, translated) == {1: "translation"}, "no translation is translated back"
        wait_until(lambda: t2 in held(world.target, group), 120, "the commit")
        assert held(world.target, group)[t1] == (3, "of somebody else")
        assert held(world.target, translated) == {}
    sync_once(world.pipeline(names, onForeignTargetCommit="overwrite"))
    assert {data[:4] for data in await_held(world, group, p1=50, p2=50).values()} == {"k2k_"}
    other = world.pipeline(names, offsetGuardPrefix="other_")
    commit(world.source, group, {t1: 60, t2: 60})
    with polling(other) as poller:
        assert words(poller.poll(), group) == {1: "foreign", 2: "foreign"}, "they have another prefix"
    sync_once(world.pipeline(names, offsetGuardPrefix="other_", onForeignTargetCommit="overwrite"))
    assert {data[:6] for data in await_held(world, group, p1=60, p2=60).values()} == {"other_"}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_with_members_on_the_target(world: World, protocol: Any) -> None:
    active, other = unique("active"), unique("active-other")
    for group in (active, other):
        commit(world.source, group, {world.at(1): 33})
    names = [active, other]
    with member(world.target, active, world.topic, protocol):
        with pytest.raises(ActiveGroup, match=rf"group {active} has members on the target .*{world.topic}-1 .*offset"):
            sync_once(world.pipeline(names))
        await_held(world, other, p1=33)  # the others were committed
        with polling(world.pipeline(names, onActiveConsumerGroupCommit="ignore")) as poller:
            assert words(poller.poll(), active) == {1: "active"}
            assert held(world.target, active) == {}
    with polling(world.pipeline(names, onActiveConsumerGroupCommit="ignore")) as poller:
        wait_until(lambda: poller.poll().committed == {active}, SECONDS, "the group to be without members")
    await_held(world, active, p1=33)


def test_topics_that_are_not_mapped_and_those_created_anew(world: World) -> None:
    group, elsewhere = unique("mixed"), unique("elsewhere")
    other = create_topic(world.source, unique("other"))
    commit(world.source, group, {world.at(0): 90, TopicPartition(other, 0): 3})
    commit(world.source, elsewhere, {TopicPartition(other, 0): 3})
    absent = unique("absent")
    result = sync_once(world.pipeline([group, elsewhere, absent]))
    assert set(result.decisions) == {group}
    assert words(result, group) == {0: "exact"}
    await_held(world, group, p0=90)
    assert (result.without_commits, result.absent) == (1, (absent,))


def test_a_source_topic_created_anew_is_another_one(clusters: KafkaSandbox, world: World, tmp_path: Path) -> None:
    source, group = clusters.source_servers, unique("anew")
    topic = create_topic(source, unique("anew"))
    produce(source, topic, [b"%d" % n for n in range(20)])
    pipeline = make_pipeline(tmp_path, source, clusters.target_servers, [topic], features=EXACT)
    copy(pipeline)
    delete_topic(source, topic)
    create_topic(source, topic)
    produce(source, topic, [b"new-%d" % n for n in range(20)])
    commit(source, group, {TopicPartition(topic, 0): 7})
    groups = pipeline.groups.model_copy(update={"consumer_groups": (group,)})
    result = sync_once(pipeline.model_copy(update={"groups": groups}))
    assert words(result, group) == {0: "not replicated"}
    assert held(clusters.target_servers, group) == {}


def test_two_pipelines_that_map_the_same_records(world: World, tmp_path: Path) -> None:
    group, name = unique("twice"), unique("second")
    second = write_pipeline(
        tmp_path,
        world.source,
        world.target,
        [world.topic],
        sink={"prefix": "second."},
        features=EXACT,
        offsetMapping={"topic": load_pipeline([world.path]).offset_mapping.topic},
        consumer={"group.id": name},
    )
    copy(load_pipeline([second]))
    commit(world.source, group, {world.at(1): 11})
    with pytest.raises(
        MultipleMappings, match=rf"group {group} in {world.topic}-1 \(offset 11\) has two mappings.*{name}"
    ):
        sync_once(world.pipeline([group]))
    result = sync_once(world.pipeline([group], onMultipleTargetCommittedOffsets="ignore"))
    assert words(result, group) == {1: "exact"}
    await_held(world, group, p1=11)
    # Mappings of others no longer count when their topic is deleted.
    delete_topic(world.target, f"second.{world.topic}")
    assert sync_once(world.pipeline([group])).failed == {}


def test_of_two_mappers_the_later_one_is_right(world: World) -> None:
    group = unique("two")
    commit(world.source, group, {world.at(0): 80})
    pipeline = world.pipeline([group])
    with polling(pipeline) as first:
        assert first.poll().committed == {group}
        await_held(world, group, p0=80)
        with polling(pipeline) as second:
            assert second.poll().committed == frozenset(), "what the first one committed is right"
            commit(world.source, group, {world.at(0): 75})
            with pytest.raises(Superseded, match=r"a newer offset mapper of pipeline .* has taken over: process"):
                first.poll()
            await_held(world, group, p0=80)
            assert second.poll().committed == {group}
            await_held(world, group, p0=75)


def _freezing(path: Path, step: str) -> None:
    """A mapper that stops itself right before a step of its first commit."""
    real = getattr(Shard, step)

    def frozen(self: Shard, *args: Any) -> Any:
        setattr(Shard, step, real)
        os.kill(os.getpid(), signal.SIGSTOP)
        return real(self, *args)

    setattr(Shard, step, frozen)
    sys.exit(run(["start", "-f", str(path)]))


@pytest.mark.slow
@pytest.mark.parametrize("step", ["_transaction", "_end"])
def test_a_frozen_mapper_leaves_no_wrong_offset_behind(world: World, tmp_path: Path, step: str) -> None:
    """It wakes up after another one has taken over, and after the group was rewound."""
    group, at = unique("frozen"), world.at(2)
    commit(world.source, group, {at: 95})
    overlay = tmp_path / "groups.yaml"
    overlay.write_text(world.path.read_text().replace("pollInterval", f"consumerGroups: [{group}]\n  pollInterval"))
    worker = multiprocessing.get_context("spawn").Process(target=_freezing, args=(overlay, step))
    worker.start()
    try:
        process = psutil.Process(worker.pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, 240, f"the mapper to stop before {step}")
        commit(world.source, group, {at: 15})
        assert sync_once(world.pipeline([group])).committed == {group}
        await_held(world, group, p2=15)
        process.resume()
        worker.join(240)
        assert worker.exitcode == Superseded.exit_code
    finally:
        worker.kill()
    await_held(world, group, p2=15)
    assert sync_once(world.pipeline([group])).committed == frozenset()


@pytest.mark.own_clusters
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["source", "target"])
def test_a_broker_that_dies_and_comes_back(clusters: KafkaSandbox, world: World, victim: str) -> None:
    group, at = unique("restart"), world.at(1)
    commit(world.source, group, {at: 12})
    pipeline = world.pipeline([group])
    stop, has_polled = threading.Event(), threading.Event()
    failures: list[Exception] = []

    def start() -> None:
        try:
            sync(pipeline, stop, observer=lambda _: has_polled.set(), timeout=3.0)
        except ClusterUnreachable:
            if has_polled.is_set():  # before that, the machine may only be slow
                raise

    def mapper() -> None:
        try:
            while not (stop.is_set() or has_polled.is_set()):
                start()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=mapper, daemon=True)
    thread.start()
    try:
        first = world.best(1, 12)
        wait_until(lambda: position(world.target, group, at) == first, 120, "the first commit")
        broker = clusters.source if victim == "source" else clusters.target
        broker.kill()
        broker.start()
        commit(world.source, group, {at: 66})
        moved = world.best(1, 66)
        wait_until(lambda: position(world.target, group, at) == moved, 120, "the commit after the restart")
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
    assert failures == []


def test_a_later_observation_than_any_of_this_generation(world: World) -> None:
    """The assignment topic was created anew, say, and with it generations began again."""
    group, off, at = unique("later"), unique("guard-off"), world.at(1)
    names = [group, off]
    for name in names:
        commit(world.source, name, {at: 10})
    with polling(world.pipeline(names)) as poller:
        assert poller.poll().committed == {group, off}
        await_held(world, group, p1=10)
        later = f"k2k_{10**9}.5"
        for name in names:
            commit(world.target, name, {at: 3}, later)
        result = poller.poll()
        assert (words(result, group), result.committed) == ({1: "older"}, frozenset())
        assert held(world.target, group)[at] == (3, later)
        again = poller.poll()
        assert (words(again, group), again.version.generation) == ({1: "exact"}, 10**9 + 1)
        await_held(world, group, p1=10)
    for generation, flag in ((10**12, "applyMappingsGuard"), (10**15, "applyMappingsGuards")):
        with polling(world.pipeline([off], **{flag: "disabled"})) as poller:
            commit(world.target, off, {at: 3}, f"k2k_{generation}.5")
            assert poller.poll().committed == {off}, "the guard is off"
            await_held(world, off, p1=10)


def test_words_are_those_of_the_docs() -> None:
    assert {word.value for word in CommitDecision} >= {
        "exact",
        "ahead",
        "waiting",
        "expired",
        "unknown",
        "not replicated",
        "foreign",
    }
