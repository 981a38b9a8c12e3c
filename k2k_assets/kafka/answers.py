"""Awaits the answers about single partitions one by one, so that a partition without a leader delays no other.

A partition has no leader for moments, while one is elected; or for long, while all brokers that hold it are down or
have lost the log directory that it lies in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

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
        KafkaError.KAFKA_STORAGE_ERROR,  # a log directory of the leader is offline: another leader may be elected
        KafkaError._NOENT,  # "no leaders found"
    }
)
"""Error codes that say that no leader of the partition can answer now."""

_POLL_SECONDS = 0.1


class Unsettled(Refused):
    """A partition has no leader now: one is being elected, or none can be."""


class Unanswered(Exception):
    """A broker did not answer: the connection broke, or the request timed out."""


class NoLeader(ClusterUnreachable):
    """No leader of some partitions answered in time.

    Args:
        cluster: The cluster's name in errors.
        why: The last error of each partition.
    """

    def __init__(self, cluster: str, why: Mapping[TopicPartition, str]) -> None:
        super().__init__(_no_leader(cluster, why))


def reasons(cluster: str, why: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
    """The message for each partition: that it has no leader, and what to do about that.

    Args:
        cluster: The cluster's name in errors.
        why: The last error of each partition.
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
    """The answers to one question about many partitions.

    Attributes:
        found: The answers.
        failed: The errors of partitions without an answer.
        is_offline: Whether a broker has said of one of the partitions that it has no leader.
    """

    found: dict[TopicPartition, T] = field(default_factory=dict)
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    is_offline: bool = False

    @classmethod
    def of(cls, asked: Mapping[TopicPartition, Callable[[], T]]) -> ClusterAnswers[T]:
        """Waits for the answers.

        Args:
            asked: Functions that each wait for the answer about one partition.

        Raises:
            ClusterUnreachable: No broker answers.
            Refused: A broker refuses one of the answers.
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


class SettledAnswers(NamedTuple, Generic[T]):
    """What has come of a question about many partitions when it is asked no more.

    Attributes:
        found: The answers.
        offline: Partitions without an answer, with the message for each.
    """

    found: dict[TopicPartition, T]
    offline: dict[TopicPartition, str]


class AskedCluster(Protocol):
    """The part of `Cluster` that this module needs.

    Attributes:
        timeout: Seconds that any call may take.
    """

    timeout: float

    def topics(self) -> dict[str, int]:
        """Fetches the metadata of all topics, from which the client learns the current leaders."""
        ...


def ask_until_settled(
    cluster: AskedCluster,
    wanted: Collection[TopicPartition],
    ask: Callable[[Collection[TopicPartition]], ClusterAnswers[T]],
    all_needed: bool,
    patience: float,
) -> SettledAnswers[T]:
    """Repeats a question while leaders are being elected or connections break, as after a creation or a restart.

    Args:
        cluster: The cluster to ask.
        wanted: The partitions to ask about.
        ask: Asks about some of the partitions.
        all_needed: Whether the answers for all partitions are needed.
        patience: Seconds to wait for leaders once a broker has answered; 0: ask once.

    Raises:
        NoLeader: Answers that are needed are missing.
        Unanswered: No broker gave any answer.
        ClusterUnreachable: No broker answers.
        Refused: A broker refuses an answer.
    """
    found: dict[TopicPartition, T] = {}
    missing: Collection[TopicPartition] = wanted
    deadline, heard = Deadline(cluster.timeout if patience else 0), all_needed
    while True:
        answers = ask(missing)
        if not heard and (answers.found or answers.is_offline):
            # Until now the whole cluster may have been away; from now on only single leaders are missing.
            deadline, heard = Deadline(patience), True
        found |= answers.found
        missing = answers.failed
        if not missing:
            return SettledAnswers(found, {})
        if deadline.expired():
            break
        time.sleep(min(_POLL_SECONDS, deadline.remaining()))
        # Without this the client goes on with the leaders and leader epochs that it knows.
        cluster.topics()
    if not found and not answers.is_offline:
        raise Unanswered
    if all_needed:
        raise NoLeader(str(cluster), answers.failed)
    return SettledAnswers(found, reasons(str(cluster), answers.failed))


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Calls a function in a thread of its own, so that the caller can do other things while it waits.

    The thread is a daemon: if nobody waits for the result any more, it ends when the call does.
    """
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, name="k2k-question", daemon=True).start()
    return future
