"""Commits translated offsets on the target, fenced by the broker: a superseded mapper can commit nothing.

The commits are part of transactions under the mapper's own transactional ids. So a mapper that initialises these ids
makes every commit of its predecessors fail, even of one that was frozen in the middle of it.
"""

from __future__ import annotations

import logging
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from threading import Lock
from typing import TypeVar

from confluent_kafka import KafkaError, Producer

from k2k_assets.control.group_versions import Version
from k2k_assets.coordination.claims import fence
from k2k_assets.core.errors import ClusterUnreachable, Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate, plural
from k2k_assets.groups.decide import GroupDecision
from k2k_assets.groups.group_frame import GroupFrame
from k2k_assets.groups.shard import RETRY_BACKOFF_MS, TRANSACTION_TIMEOUT_MS, CommitReport, Shard
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.kafka import clients
from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.errors import Restart

log = logging.getLogger("k2k.groups")

T = TypeVar("T")

SHARDS = 4
"""Number of transactional ids of a mapper. Never configurable: a new mapper must fence all ids of an old one."""


def mapper_id(pipeline: str, group: str | None, shard: int) -> str:
    """A transactional id of a pipeline's mapper.

    Args:
        pipeline: The pipeline's name. The id contains its length, so that no two pipelines share an id.
        group: The pipeline's `group.id`; None: the id of older releases, which did not tell groups apart.
        shard: Number of the shard, less than `SHARDS`.
    """
    if group is None:
        return f"k2k-mapper.{pipeline}.{shard}"
    return f"k2k-mapper.{pipeline}.{group}.{len(pipeline)}.{shard}"


class GroupCommitter:
    """Commits through one shard for each of the mapper's transactional ids.

    Args:
        pipeline: Names the ids, and has the target's client settings.
        groups: The target's groups.
        ensure_newest: Raises `Superseded` if a newer mapper has claimed the pipeline. It is called after an id was
            initialised and before the first commit under it (a newer mapper writes its claim before it fences), and
            before an id is initialised again; from other threads, but never from two at once.
        timeout: Seconds that any call may take.
    """

    def __init__(
        self, pipeline: Pipeline, groups: TargetGroups, ensure_newest: Callable[[], None], timeout: float = 15.0
    ) -> None:
        self._pipeline = pipeline
        self._prefix = pipeline.groups.offset_guard_prefix
        self._look = ensure_newest
        self._looking = Lock()
        frame = GroupFrame(pipeline.client_properties("target", "consumer"))
        self._shards = [
            Shard(partial(_producer, pipeline, shard), groups, frame, self._ensure_newest, timeout)
            for shard in range(SHARDS)
        ]
        self._threads = ThreadPoolExecutor(SHARDS, thread_name_prefix="k2k-groups")

    def claim(self, rivals: Iterable[str | None] = ()) -> None:
        """Initialises all ids, which fences their former holders and aborts the transactions that they left open.

        Call it after the mapper's own claim was written, and before the target's groups are read.

        Args:
            rivals: Groups under whose ids other mappers of the same groups may commit; see `mapper_id`.

        Raises:
            Superseded: A newer mapper exists.
            ClusterUnreachable: The target did not answer in time.
            Refused: The principal may not use these ids.
        """
        others = [mapper_id(self._pipeline.name, group, shard) for group in rivals for shard in range(SHARDS)]
        try:
            fence(self._pipeline, others)
            for done in [self._threads.submit(shard.claim) for shard in self._shards]:
                done.result()
        except Restart as error:
            raise ClusterUnreachable(f"target cluster: the mapper's transactional ids: {error}") from None
        self._ensure_newest()

    def commit(self, decisions: Sequence[GroupDecision], version: Version) -> CommitReport:
        """Commits the decided offsets of many groups at once; decisions without commits cost nothing.

        Raises:
            Superseded: A newer mapper exists.
        """
        of_shard: dict[int, list[GroupDecision]] = defaultdict(list)
        for decision in decisions:
            if decision.commits:
                of_shard[_shard_of(decision.group)].append(decision)
        metadata = version.metadata(self._prefix)
        report = CommitReport()
        for done in self._at_once((self._shards[shard].commit, mine, metadata) for shard, mine in of_shard.items()):
            report.add(done)
        return report

    def release(self, stuck: Mapping[str, TopicPartition]) -> set[str]:
        """Gives up what earlier transactions of this pipeline's mapper have left pending for groups.

        Args:
            stuck: By group a partition whose offset is pending for longer than such a transaction takes; the
                most urgent ones first.

        Returns:
            The groups that were tried in the time of one poll.

        Raises:
            Superseded: A newer mapper exists.
        """
        of_shard: dict[int, dict[str, TopicPartition]] = defaultdict(dict)
        for group, partition in stuck.items():
            of_shard[_shard_of(group)][group] = partition
        tried: dict[str, str] = {}
        for of_one in self._at_once((self._shards[shard].release, mine) for shard, mine in of_shard.items()):
            tried |= of_one
        for why in sorted(set(tried.values())):
            names = [group for group, reason in tried.items() if reason == why]
            log.warning(
                "%s: offsets on the target are pending for a minute and longer (%s). A broker that restarts can forget "
                "the end of a transaction; %s. If it stays so, kafka-transactions.sh find-hanging tells which "
                "transaction it is",
                plural(len(names), "group"),
                abbreviate(f"{group} in {stuck[group]}" for group in names),
                f"that cannot be mended now: {why}" if why else "what was the mapper's own is ended now",
            )
        return set(tried)

    def _at_once(self, calls: Iterable[tuple[Callable[..., T], *tuple[object, ...]]]) -> list[T]:
        """Calls functions of shards, each in a thread; returns when all have ended.

        Raises:
            Superseded: A newer mapper exists.
        """
        running = [self._threads.submit(function, *given) for function, *given in calls]
        wait(running)  # even if one shard fails, none may still commit when the next poll begins
        failed = [error for done in running if (error := done.exception())]
        superseded = [error for error in failed if isinstance(error, Superseded)]
        for error in superseded or failed:
            raise error
        return [done.result() for done in running]

    def close(self) -> None:
        """Closes the producers."""
        self._threads.shutdown(wait=True)
        for shard in self._shards:
            shard.close()

    def __enter__(self) -> GroupCommitter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ensure_newest(self) -> None:
        with self._looking:
            self._look()


def _shard_of(group: str) -> int:
    return zlib.crc32(group.encode()) % SHARDS


def _producer(pipeline: Pipeline, shard: int, lost_a_broker: Callable[[KafkaError], None]) -> Producer:
    """Makes a producer with one of the mapper's ids and the project's settings."""
    properties = pipeline.client_properties("target", "producer")
    timeout = min(int(properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)), TRANSACTION_TIMEOUT_MS)
    settings: dict[str, object] = {
        "transactional.id": mapper_id(pipeline.name, pipeline.group, shard),
        "transaction.timeout.ms": timeout,
        "message.timeout.ms": timeout,
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "retry.backoff.max.ms": RETRY_BACKOFF_MS,
        "enable.idempotence": True,
        "acks": "all",
        "error_cb": lost_a_broker,
    }
    return clients.producer(properties, settings)
