"""The faults of a storm: small, each with a weight, each acting on an environment.

A fault that lasts (a frozen process, a broker that is down) ends by itself before its function returns; several may
last at the same time. All its choices come from the random generator that it is given.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import KafkaException

from k2k_assets.core.errors import K2KError
from k2k_assets.kafka.connection import Role
from k2k_assets_tests.storm import indexing
from k2k_assets_tests.storm.environment import ENDINGS, Environment
from k2k_assets_tests.storm.instances import Engine, Part
from k2k_assets_tests.support.brokers.groups import delete_group
from k2k_assets_tests.support.copies.unlucky import NONE, Mishap

_MOST_TOPICS = 4
_MOST_GROUPS = 8
_MOST_PARTITIONS = 6
Act = Callable[[Environment, random.Random], str]


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: As the docs name it.
        weight: How often it is chosen, against the others.
        act: Does it; returns what was done, empty if there was nothing to do it to.
        engines: On which of them it makes sense.
        shared: Whether it strikes what two pipelines between the same clusters share.
    """

    name: str
    weight: int
    act: Act
    engines: frozenset[Engine] = frozenset({"spark", "processes"})
    shared: bool = False


def _kill(part: Part) -> Act:
    def act(environment: Environment, rng: random.Random) -> str:
        which = rng.randrange(8)
        instance = environment.copiers.some(rng)
        killed = instance.kill(part, which) if instance else ""
        return f"{instance.name}: {killed}" if instance and killed else ""

    return act


def _kill_all(environment: Environment, rng: random.Random) -> str:
    return "; ".join(f"{instance.name}: {instance.kill('everything')}" for instance in environment.copiers.running())


def _freeze(part: Part) -> Act:
    def act(environment: Environment, rng: random.Random) -> str:
        which, seconds = rng.randrange(8), environment.long(rng)
        instance = environment.copiers.some(rng)
        if not instance:
            return ""
        with instance.frozen(part, which) as what:
            if what:
                environment.rest(seconds)
            return f"{instance.name}: {what} for {seconds:.1f} s" if what else ""

    return act


def _broker(role: Literal["source", "target"], how: Literal["kill", "restart", "freeze"]) -> Act:
    def act(environment: Environment, rng: random.Random) -> str:
        seconds = environment.long(rng) if how == "freeze" else environment.short(rng)
        with environment.broker(role) as broker:
            if broker is None:
                return ""
            if how == "freeze":
                broker.pause()
                environment.rest(seconds)
                broker.resume()
            else:
                if how == "kill":
                    broker.kill()
                else:
                    broker.stop()
                environment.rest(seconds)
                broker.start()
            return f"{role} for {seconds:.1f} s"

    return act


def _second_instance(mishap: Callable[[random.Random], Mishap] = lambda _: NONE) -> Act:
    def act(environment: Environment, rng: random.Random) -> str:
        slots, chosen = rng.randint(1, 4), mishap(rng)
        return (
            f"{environment.start_copier(slots, chosen).name} with {slots} slots"
            if len(environment.copiers.running()) < 2
            else ""
        )

    return act


def _wrong_clock(rng: random.Random) -> Mishap:
    return Mishap(clock=rng.choice([-1, 1]) * rng.uniform(60, 100_000))


def _twice(_: random.Random) -> Mishap:
    return Mishap(twice=True)


def _corrupt_record(environment: Environment, rng: random.Random) -> str:
    topic = rng.choice([environment.pipeline.coordination.commit.topic, environment.pipeline.offset_mapping.topic])
    environment.corrupt(topic)
    return topic


def _index_update_killed(environment: Environment, rng: random.Random) -> str:
    seconds = rng.uniform(3, 12)  # its Java process takes some of them
    with environment.index_update() as update:
        if update is None:
            return ""
        environment.rest(seconds)
        indexing.kill(update)
        return f"after {seconds:.1f} s"


def _index_lost(environment: Environment, rng: random.Random) -> str:
    seconds = rng.uniform(0, 10)
    with environment.index_update() as update:
        if update is None:
            return ""
        environment.rest(seconds)
        shutil.rmtree(environment.index_root, ignore_errors=True)
        environment.note_update(update)
        return f"after {seconds:.1f} s"


def _index_not_writable(environment: Environment, rng: random.Random) -> str:
    with environment.index_update() as update:
        if update is None:
            return ""
        with indexing.in_the_way(environment.index_root):
            environment.note_update(update)
        return "for one update"


def _stop_instance(environment: Environment, rng: random.Random) -> str:
    instance = environment.copiers.some(rng)
    if not instance or not instance.has_begun() or 0 in instance.excuses:  # a second signal ends it at once
        return ""
    instance.ask_to_stop()
    return instance.name


def _mapper_killed(environment: Environment, rng: random.Random) -> str:
    mapper = environment.mappers.some(rng)
    killed = mapper.kill("everything") if mapper else ""
    return f"{mapper.name}: {killed}" if mapper and killed else ""


def _mapper_frozen(environment: Environment, rng: random.Random) -> str:
    seconds, mapper = environment.long(rng), environment.mappers.some(rng)
    if not mapper:
        return ""
    with mapper.frozen("everything") as what:
        if what:
            environment.rest(seconds)
        return f"{mapper.name}: {what} for {seconds:.1f} s" if what else ""


def _second_mapper(environment: Environment, rng: random.Random) -> str:
    return environment.start_mapper().name if len(environment.mappers.running()) < 2 else ""


def _mapper_stopped(environment: Environment, rng: random.Random) -> str:
    mapper = environment.mappers.some(rng)
    if not mapper or not mapper.has_begun() or 0 in mapper.excuses:
        return ""
    mapper.ask_to_stop()
    return mapper.name


def _foreign_transaction(environment: Environment, rng: random.Random) -> str:
    seconds, end = environment.long(rng), rng.choice(ENDINGS)
    environment.hold_commit_topic(seconds, end)
    return f"{end} after {seconds:.1f} s"


def _source_transaction(environment: Environment, rng: random.Random) -> str:
    seconds, end = environment.long(rng), rng.choice(ENDINGS)
    topic, partition = rng.choice(environment.writer.places)
    environment.hold_source(topic, partition, seconds, end, rng)
    return f"{topic}-{partition}: {end} after {seconds:.1f} s"


def _new_topic(environment: Environment, rng: random.Random) -> str:
    partitions = rng.randint(1, 3)
    with environment.broker("source") as broker:
        if broker is None or len(environment.topics()) >= _MOST_TOPICS:
            return ""
        return f"{environment.add_topic(partitions)} with {partitions} partitions"


def _new_partition(environment: Environment, rng: random.Random) -> str:
    topic = rng.choice(sorted(environment.topics()))
    with environment.broker("source") as broker:
        if broker is None or environment.topics()[topic] >= _MOST_PARTITIONS:
            return ""
        environment.add_partition(topic)
        return topic


def _topic_deleted(environment: Environment, rng: random.Random) -> str:
    topic = rng.choice(sorted(environment.topics()))
    with environment.broker("source") as broker:
        try:
            return topic if broker is not None and environment.delete_topic(topic) else ""
        except (KafkaException, TimeoutError):  # the broker has just come back; nobody writes to it any more
            return ""


def _new_group(environment: Environment, rng: random.Random) -> str:
    if len(environment.groups.names) >= _MOST_GROUPS:
        return ""
    name = environment.groups.names[0].rpartition("-")[0]
    return environment.groups.add(f"{name}-{rng.randrange(10**9)}")


def _group_deleted(side: Role) -> Act:
    def act(environment: Environment, rng: random.Random) -> str:
        groups = environment.groups
        name = rng.choice(groups.names)
        with environment.broker(side) as broker:
            if broker is None or len(groups.names) == 1:
                return ""
            try:
                if side == "source":
                    groups.remove(name)
                else:
                    delete_group(environment.sandbox.target_servers, name)
            except K2KError:  # it may not be there yet, or the coordinator not here
                return ""
            return name

    return act


def _registry_frozen(environment: Environment, rng: random.Random) -> str:
    seconds = environment.long(rng)
    with environment.registry(rng) as registry:
        if registry is None:
            return ""
        registry.pause()
        environment.rest(seconds)
        registry.resume()
        return f"{registry.url} for {seconds:.1f} s"


_ANY: frozenset[Engine] = frozenset({"spark", "processes", "dagster"})
_WITH_JAVA: frozenset[Engine] = frozenset({"spark", "dagster"})
_SPARK: frozenset[Engine] = frozenset({"spark"})
_DAGSTER: frozenset[Engine] = frozenset({"dagster"})

FAULTS = [
    Fault("worker killed", 6, _kill("worker"), _ANY),
    Fault("JVM killed", 2, _kill("jvm"), _WITH_JAVA),
    Fault("executor killed", 2, _kill("executor"), _SPARK),
    Fault("driver killed", 3, _kill("driver"), _ANY),
    Fault("everything killed", 2, _kill_all, _ANY),
    Fault("worker frozen", 5, _freeze("worker"), _ANY),
    Fault("driver frozen", 2, _freeze("driver"), _ANY),
    Fault("instance frozen", 3, _freeze("everything")),
    Fault("source broker killed", 2, _broker("source", "kill"), _ANY, shared=True),
    Fault("source broker restarted", 1, _broker("source", "restart"), _ANY, shared=True),
    Fault("source broker frozen", 2, _broker("source", "freeze"), _ANY, shared=True),
    Fault("target broker killed", 2, _broker("target", "kill"), _ANY, shared=True),
    Fault("target broker restarted", 1, _broker("target", "restart"), _ANY, shared=True),
    Fault("target broker frozen", 2, _broker("target", "freeze"), _ANY, shared=True),
    Fault("schema registry frozen", 3, _registry_frozen, _ANY, shared=True),
    Fault("second instance started", 5, _second_instance()),
    Fault("instance with a wrong clock started", 2, _second_instance(_wrong_clock)),
    Fault("instance with two attempts of each slot started", 2, _second_instance(_twice)),
    Fault("instance stopped", 2, _stop_instance),
    Fault("mapper killed", 3, _mapper_killed),
    Fault("mapper frozen", 3, _mapper_frozen),
    Fault("second mapper started", 2, _second_mapper),
    Fault("mapper stopped", 1, _mapper_stopped),
    Fault("commit topic held", 2, _foreign_transaction, _ANY),
    Fault("source transaction open", 3, _source_transaction, _ANY),
    Fault("control record corrupted", 2, _corrupt_record, _ANY),
    Fault("index update killed", 1, _index_update_killed, _SPARK),
    Fault("index lost", 1, _index_lost, _SPARK),
    Fault("index not writable", 1, _index_not_writable, _SPARK),
    Fault("topic created", 1, _new_topic, _ANY, shared=True),
    Fault("partition added", 1, _new_partition, _ANY, shared=True),
    Fault("topic deleted", 1, _topic_deleted, _DAGSTER),
    Fault("consumer group created", 2, _new_group, _DAGSTER),
    Fault("consumer group deleted on the source", 1, _group_deleted("source"), _DAGSTER),
    Fault("consumer group deleted on the target", 2, _group_deleted("target"), _DAGSTER),
    Fault("Dagster's daemon killed", 1, _kill("daemon"), _DAGSTER),
    Fault("code server killed", 2, _kill("code server"), _DAGSTER),
]

LEAVE_NO_SLEEPER = frozenset(
    {
        "everything killed",
        "source broker killed",
        "source broker restarted",
        "source broker frozen",
        "target broker killed",
        "target broker restarted",
        "source transaction open",
        "mapper killed",
        "mapper frozen",
        "second mapper started",
        "mapper stopped",
        "index update killed",
        "index lost",
        "index not writable",
        "topic created",
        "partition added",
    }
)
"""Faults after which no writer goes on that somebody has taken over from. A killed worker leaves the others of its
instance at work: while the target is away none of them hears that all was taken over, and what is queued is on its way.
"""
