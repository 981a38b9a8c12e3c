"""How the answers about single partitions are awaited: each by itself, so that one does not hold up the others.

A partition has no leader while one is elected, which takes moments, or while the brokers that hold it are down or have
lost the directory that it lies in, which lasts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from confluent_kafka import KafkaError

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate

T = TypeVar("T")

UNSETTLED = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,  # a directory of the leader is offline: another one is elected if it can be
        KafkaError._NOENT,  # "no leaders found"
    }
)
"""Errors by which a broker says that the partition has no leader that could answer now."""

_POLL_SECONDS = 0.1


class Unsettled(Refused):
    """A leader is being elected, or there is none."""


class Unanswered(Exception):
    """A broker did not answer: the connection broke, or it took too long."""


class NoLeader(ClusterUnreachable):
    """Partitions had no leader that answered, for as long as was waited.

    Args:
        cluster: As it is named in errors.
        why: What was said of each of them.

    Attributes:
        reasons: Of each partition, in words.
    """

    def __init__(self, cluster: str, why: Mapping[TopicPartition, str]) -> None:
        super().__init__(_no_leader(cluster, why))
        self.reasons = reasons(cluster, why)


def reasons(cluster: str, why: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
    """Of each partition, that it has no leader, and what to do about it.

    Args:
        cluster: As it is named in errors.
        why: What was said of each of them.
    """
    return {tp: _no_leader(cluster, {tp: words}) for tp, words in why.items()}


def _no_leader(cluster: str, why: Mapping[TopicPartition, str]) -> str:
    return (
        f"the {cluster} has no leader that answers for {abbreviate(why)}: {next(iter(why.values()))}. Look which of "
        "its brokers are down, and at their logs for log directories that are offline (kafka-topics.sh --describe "
        "--unavailable-partitions names the brokers that hold such partitions)"
    )


@dataclass(slots=True)
class ClusterAnswers(Generic[T]):
    """What came of one question about many partitions.

    Attributes:
        found: The answers.
        failed: Why there is none, for the other partitions.
        is_offline: Whether a broker has said of one of them that it has no leader.
    """

    found: dict[TopicPartition, T] = field(default_factory=dict)
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    is_offline: bool = False

    @classmethod
    def of(cls, asked: Mapping[TopicPartition, Callable[[], T]]) -> ClusterAnswers[T]:
        """Waits for the answers.

        Args:
            asked: How to wait for each of them.

        Raises:
            ClusterUnreachable: No broker answers.
            Refused: One of them is a refusal.
        """
        answers = cls()
        for tp, wait in asked.items():
            try:
                answers.found[tp] = wait()
            except Unsettled as error:
                answers.failed[tp] = str(error)
                answers.is_offline = True
            except Unanswered:
                answers.failed[tp] = "no answer in time"
        return answers


class AskedCluster(Protocol):
    """A cluster, as far as it is to be known here.

    Attributes:
        timeout: Seconds that any call may take.
    """

    timeout: float

    def topics(self) -> dict[str, int]:
        """Asks for all topics: the client learns the leaders anew."""
        ...


def ask_until_settled(
    cluster: AskedCluster,
    wanted: Collection[TopicPartition],
    ask: Callable[[Collection[TopicPartition]], ClusterAnswers[T]],
    without_leader: dict[TopicPartition, str] | None,
    patience: float | None,
) -> dict[TopicPartition, T]:
    """Asks again while leaders are being elected, or when a connection broke: after a creation, a restart.

    Args:
        cluster: Which is asked.
        wanted: Partitions.
        ask: The question.
        without_leader: Takes the partitions without an answer, with the reason, if there are answers for others; None:
            all are needed.
        patience: Seconds to wait for leaders once a broker has answered; 0: ask once; None: the cluster's time-out.

    Raises:
        NoLeader: Not all have answered; or none, if not all are needed.
        Unanswered: No answer at all.
        ClusterUnreachable: No broker answers.
        Refused: A broker refuses one.
    """
    found: dict[TopicPartition, T] = {}
    missing: Collection[TopicPartition] = wanted
    seconds = cluster.timeout if patience is None else patience
    deadline, heard = Deadline(cluster.timeout if seconds else 0), without_leader is None
    while True:
        answers = ask(missing)
        if not heard and (answers.found or answers.is_offline):
            # Before that the whole cluster may have been away: from now on it is single leaders that are waited for.
            deadline, heard = Deadline(seconds), True
        found |= answers.found
        missing = answers.failed
        if not missing:
            return found
        if deadline.expired():
            break
        time.sleep(min(_POLL_SECONDS, deadline.remaining()))
        # The client would go on with the leaders and epochs that it knows from before.
        cluster.topics()
    if without_leader is not None and found:
        without_leader.update(reasons(str(cluster), answers.failed))
        return found
    if found or answers.is_offline:
        raise NoLeader(str(cluster), answers.failed)
    raise Unanswered


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Calls in a thread, for who looks at other things while it waits; one that nobody waits for any more ends late."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, name="k2k-question", daemon=True).start()
    return future
