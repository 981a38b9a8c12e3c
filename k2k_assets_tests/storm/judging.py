"""Compares all that came of a storm, once it is calm: records, groups, and what the product says of positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.translation import OffsetTranslator
from k2k_assets_tests.storm.environment import Environment
from k2k_assets_tests.storm.failing import problems_of_dead_letters
from k2k_assets_tests.storm.plan import Plan
from k2k_assets_tests.storm.ways import Way
from k2k_assets_tests.support.brokers.kafka import ReadRecord, read_all
from k2k_assets_tests.support.brokers.offsets_topic import group_commits
from k2k_assets_tests.support.copies.copying import mapping_records
from k2k_assets_tests.support.proof.verifying import Verdict, verify, verify_deleted
from k2k_assets_tests.support.proof.verifying_groups import (
    Copies,
    GroupPartition,
    GroupVerdict,
    Judge,
    misplaced,
    verify_commits,
)
from k2k_assets_tests.support.proof.verifying_groups_both_ways import Said, SharedCopies, of_partition

Judges = Mapping[TopicPartition, Judge]

_GROUP_SECONDS = 60.0
# In Dagster they wait for the checks of the mappings.
_VERDICT_SECONDS = 240.0
_OFFSETS_SECONDS = 5.0


def compare_records(plan: Plan, way: Way) -> Verdict:
    """Every record of a pipeline, with its commit records and mappings."""
    environment, stages = way.environment, way.stages
    clusters = environment.sandbox
    verdict = verify(
        environment.pipeline, clusters.source_servers, clusters.target_servers, environment.topics(),
        plan.late_writers, stages.through_all, stages.is_copy,
    )  # fmt: skip
    for topic, there in environment.gone.items():
        verdict += verify_deleted(environment.pipeline, clusters.target_servers, topic, there, plan.late_writers)
    for dead in stages.dead_letter_topics():
        letters = read_all(clusters.target_servers, dead)
        source = (r for topic in environment.topics() for r in read_all(clusters.source_servers, topic))
        verdict.problems += problems_of_dead_letters(source, letters, stages.dead_letter, plan.exactly_once)
        verdict.dead_letters += len(letters)
    return verdict


def await_groups(ways: Sequence[Way], keep_up: Callable[[], None]) -> list[str]:
    """Waits until mappers have moved all groups to where they belong.

    Args:
        ways: The pipelines.
        keep_up: Keeps all running.

    Returns:
        Groups that are not there in time, though all is calm.
    """
    return [words for way, judges in zip(ways, judges_of(ways), strict=True) for words in _left(way, judges, keep_up)]


def compare_groups(plan: Plan, ways: Sequence[Way]) -> GroupVerdict:
    """Every commit that a mapper has made; and both ways, what is said of every position."""
    verdict, all_judges = GroupVerdict(), judges_of(ways)
    for way, judges in zip(ways, all_judges, strict=True):
        made = group_commits(way.environment.sandbox.target_servers)
        prefix = way.environment.pipeline.groups.offset_guard_prefix
        history = {where: held for where, held in way.groups.history.items() if where[1] in judges}
        verdict += verify_commits(made, history, judges, prefix)
    if plan.both_ways:
        for way, forth, back in zip(ways, all_judges, reversed(all_judges), strict=True):
            verdict += _what_is_said(plan, way, forth, back)
    return verdict


def judges_of(ways: Sequence[Way]) -> list[Judges]:
    """For each pipeline, where groups have to go on that have read its source partitions."""
    if len(ways) == 1:
        return [_copies(ways[0].environment)]
    return [dict(_shared(way, back)) for way, back in zip(ways, reversed(ways), strict=True)]


def _left(way: Way, judges: Judges, keep_up: Callable[[], None]) -> list[str]:
    environment, positions, found = way.environment, way.groups.positions(), [[""]]
    patience = _GROUP_SECONDS if environment.mappers.started else _VERDICT_SECONDS

    def all_moved() -> bool:
        keep_up()
        held = _offsets(environment.sandbox.target_servers, positions)
        found.append(misplaced(held, positions, judges))
        return not found[-1]

    try:
        wait_until(all_moved, patience, "the groups to be moved", interval=1.0)
    except TimeoutError as late:
        return [f"{late}: {'; '.join(found[-1])}\n{environment.mappers.last_words()}"]
    return []


def _offsets(servers: str, where: Iterable[GroupPartition]) -> dict[GroupPartition, int]:
    """The offsets that groups have committed; without those of groups whose coordinator does not answer now."""
    wanted: dict[str, list[KafkaTopicPartition]] = defaultdict(list)
    for group, partition in where:
        wanted[group].append(KafkaTopicPartition(*partition))
    found: dict[GroupPartition, int] = {}
    for group, partitions in wanted.items():
        # Not an admin client: "not coordinator" for an answer would end this process (librdkafka 2.16).
        consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
        try:
            for each in consumer.committed(partitions, timeout=_OFFSETS_SECONDS):
                if each.error is None and each.offset >= 0:
                    found[group, TopicPartition(each.topic, each.partition)] = each.offset
        except KafkaException:
            continue
        finally:
            consumer.close()
    return found


def _copies(environment: Environment) -> dict[TopicPartition, Judge]:
    """Where each record of each source partition is now."""
    mappings = mapping_records(environment.pipeline, environment.sandbox.target_servers)
    copies: dict[TopicPartition, Judge] = {}
    for partition, (there, copied) in _read(environment).items():
        copies[partition] = Copies.of(there, copied, of_partition(mappings, partition))
    return copies


def _shared(way: Way, back: Way) -> dict[TopicPartition, SharedCopies]:
    forth = mapping_records(way.environment.pipeline, way.environment.sandbox.target_servers)
    backward = mapping_records(back.environment.pipeline, back.environment.sandbox.target_servers)
    # The same on both sides where markers hold the pipeline's name; else a copy has that of the side it came from.
    markers = way.stages.is_copy, back.stages.is_copy
    return {
        partition: SharedCopies.of(
            here,
            there,
            lambda record: any(is_copy(record) for is_copy in markers),
            (of_partition(forth, partition), of_partition(backward, partition)),
            lambda record: back.stages.through(record) is None,
        )
        for partition, (here, there) in _read(way.environment).items()
    }


def _read(environment: Environment) -> dict[TopicPartition, tuple[list[ReadRecord], list[ReadRecord]]]:
    """The records of each source partition and of its target partition."""
    found = {}
    for topic, partitions in environment.topics().items():
        there = read_all(environment.sandbox.source_servers, topic)
        copied = read_all(environment.sandbox.target_servers, environment.pipeline.routing.target_topic(topic))
        for partition in range(partitions):
            both = ([r for r in side if r.partition == partition] for side in (there, copied))
            found[TopicPartition(topic, partition)] = next(both), next(both)
    return found


def _what_is_said(plan: Plan, way: Way, forth: Judges, back: Judges) -> GroupVerdict:
    """What a pipeline says of every position on its source, and of every position on its target."""
    verdict = GroupVerdict()
    with OffsetTranslator.open(way.environment.pipeline) as translator:
        for ask, judges in ((translator.translate, forth), (translator.translate_back, back)):
            for partition, judge in judges.items():
                assert isinstance(judge, SharedCopies)
                if judge.is_empty:
                    continue
                answers = ask(*partition, range(judge.end + 1))
                said = [Said(each.offset, each.to_offset, each.state, each.read_again) for each in answers]
                verdict.answers.update(each.state for each in said)
                name = f"{ask.__name__} of {way.environment.label}pipeline, {partition}"
                verdict.problems += [f"{name}: {words}" for words in judge.untrue(said, plan.exactly_once)]
    return verdict
