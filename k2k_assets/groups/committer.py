"""Commits translated offsets on the target, fenced by the broker: a superseded mapper can commit nothing.

The commits are part of transactions under the mapper's own transactional ids, so the mapper that claims these ids
makes every commit of its predecessors fail, also one that was frozen in the middle of it.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from threading import Lock

from confluent_kafka import KafkaError, Producer

from k2k_assets.control.group_versions import Version
from k2k_assets.coordination.claims import fence
from k2k_assets.core.errors import ClusterUnreachable, Superseded
from k2k_assets.groups.decide import GroupDecision
from k2k_assets.groups.group_frame import GroupFrame
from k2k_assets.groups.shard import RETRY_BACKOFF_MS, TRANSACTION_TIMEOUT_MS, CommitReport, Shard
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.kafka import clients
from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.errors import Restart

SHARDS = 4
"""Transactional ids of a pipeline's mapper. Never configurable: a new mapper must fence all of the old one's."""


def mapper_id(pipeline: str, group: str | None, shard: int) -> str:
    """A transactional id of a pipeline's mapper.

    Args:
        pipeline: The pipeline's name. Its length tells where it ends, so that no two pipelines share an id.
        group: Its `group.id`; None: as releases had it that did not tell groups apart.
        shard: Less than `SHARDS`.
    """
    if group is None:
        return f"k2k-mapper.{pipeline}.{shard}"
    return f"k2k-mapper.{pipeline}.{group}.{len(pipeline)}.{shard}"


class GroupCommitter:
    """Holds the mapper's transactional ids.

    Args:
        pipeline: Names the ids, and has the target's client settings.
        groups: The target's groups.
        ensure_newest: Raises `Superseded` if a newer mapper has claimed the pipeline. Called each time that an id was
            claimed, before the first commit under it (a newer mapper writes its claim before it fences), and before
            one is claimed anew; from other threads, never from two at once.
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
        """Claims all ids: whoever held them is fenced, what they left open is aborted.

        Call it after the mapper's own claim was written, and before anything that the target holds is read.

        Args:
            rivals: Groups under whose ids other mappers of the same groups may commit; see `mapper_id`.

        Raises:
            Superseded: A newer mapper exists.
            ClusterUnreachable: Not in time.
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
        """Commits what was decided, many groups at once; decisions without commits cost nothing.

        Raises:
            Superseded: A newer mapper exists; it is its turn.
        """
        of_shard: dict[int, list[GroupDecision]] = defaultdict(list)
        for decision in decisions:
            if decision.commits:
                of_shard[zlib.crc32(decision.group.encode()) % SHARDS].append(decision)
        metadata = version.metadata(self._prefix)
        running = [self._threads.submit(self._shards[shard].commit, mine, metadata) for shard, mine in of_shard.items()]
        wait(running)  # whatever one of them raises: none may still be at it when the next poll begins
        report = CommitReport()
        superseded: Superseded | None = None
        for done in running:
            try:
                report.add(done.result())
            except Superseded as error:
                superseded = error
        if superseded:
            raise superseded
        return report

    def close(self) -> None:
        """Lets go of the producers."""
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


def _producer(pipeline: Pipeline, shard: int, lost_a_broker: Callable[[KafkaError], None]) -> Producer:
    """A producer with one of the mapper's ids and the project's settings for such."""
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
