"""Consumer groups in a storm: their positions on the source move forward and back, and each commit is recorded."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.brokers.groups import delete_group
from k2k_assets_tests.support.brokers.kafka import end_offsets
from k2k_assets_tests.support.brokers.offsets_topic import GroupCommit, group_commits
from k2k_assets_tests.support.proof.verifying_groups import GroupPartition, Held
from k2k_assets_tests.support.suite.background import Background

_COMMIT_SECONDS = 10.0
# Of ten commits so many go forward, back to an earlier record, and to the end.
_WAYS = {"on": 6, "back": 1, "end": 3}


class ReadingGroups(Background):
    """Groups on the source that read on until they are stopped; a source that is down for a while is waited for.

    Args:
        servers: The source cluster.
        names: Of the groups.
        places: Topic partitions that they read; may grow meanwhile.
        seed: Of their choices.
        pause: Mean seconds between two commits of any of them.

    Attributes:
        history: What each group has committed, in order, by group and partition.
    """

    def __init__(
        self, servers: str, names: Sequence[str], places: list[tuple[str, int]], seed: int, pause: float = 0.4
    ) -> None:
        super().__init__("reading-groups")
        self.history: dict[GroupPartition, list[Held]] = defaultdict(list)
        self._servers = servers
        self.names = list(names)
        self._places = places
        self._random = random.Random(f"{seed}.groups")
        self._pause = pause

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """None commits while the block lasts."""
        with self._at_work:
            yield

    def positions(self) -> dict[GroupPartition, int]:
        """Where the groups stand, as their cluster says: a commit without an answer may have been made, or not."""
        return {(c.group, c.partition): c.offset for c in group_commits(self._servers) if self._is_there(c)}

    def add(self, name: str) -> str:
        """Lets one more group read from now on; returns its name."""
        with self._at_work:
            self.names.append(name)
        return name

    def remove(self, name: str) -> None:
        """A group reads no more, and is deleted where it read.

        Raises:
            K2KError: The cluster does not delete it; it reads on.
        """
        with self._at_work:
            delete_group(self._servers, name)
            self.names.remove(name)

    def _is_there(self, commit: GroupCommit) -> bool:
        return commit.group in self.names and tuple(commit.partition) in self._places

    def _run(self) -> None:
        while not self._end.wait(self._random.expovariate(1 / self._pause)):
            with self._at_work:
                group, partition = self._random.choice(self.names), TopicPartition(*self._random.choice(self._places))
                try:
                    self._commit(group, partition, self._next(group, partition))
                except (KafkaException, TimeoutError):
                    continue

    def _next(self, group: str, partition: TopicPartition) -> int:
        """Any offset will do, also one that is no record's: of a marker, of an aborted record, of one that is gone."""
        end = end_offsets(self._servers, partition.topic)[partition.partition]
        held = self.history[group, partition]
        current = held[-1].position if held else 0
        (way,) = self._random.choices(list(_WAYS), list(_WAYS.values()))
        if way == "on":
            return self._random.randint(min(current, end), end)
        return end if way == "end" else self._random.randint(0, current)

    def _commit(self, group: str, partition: TopicPartition, position: int) -> None:
        held = self.history[group, partition]
        held.append(Held(position, _now(), None))  # first: a commit without an answer may have been made
        _commit(self._servers, group, partition, position)
        held[-1] = held[-1]._replace(answered=_now())


def _commit(servers: str, group: str, partition: TopicPartition, position: int) -> None:
    """As an application does that has no members just now. An admin client may abort the process (librdkafka 2.16)."""
    answers: list[list[KafkaError]] = []

    def answered(error: KafkaError | None, partitions: list[KafkaTopicPartition]) -> None:
        answers.append([found for found in (error, *(each.error for each in partitions)) if found is not None])

    settings = {"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "on_commit": answered})
    try:
        consumer.commit(offsets=[KafkaTopicPartition(*partition, position)], asynchronous=True)
        deadline = Deadline(_COMMIT_SECONDS)
        while not answers:
            if deadline.expired():
                raise TimeoutError(f"{group}: no answer to a commit")
            consumer.poll(0.05)
        if answers[0]:
            raise KafkaException(answers[0][0])
    finally:
        consumer.close()


def _now() -> int:
    return int(time.time() * 1000)
