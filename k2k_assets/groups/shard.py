"""A shard commits offsets of groups under one transactional id of the mapper, many groups in one transaction.

```
 begin    send offsets of group 1, 2, 3 ...    look at the groups                                  end
          (pending: no reader sees them)       one has members, or other commits than at the
                                               decision? abort, again without it
```

The look at the groups comes between sending and ending, not before, because the decision may be old (a process may be
frozen):

- A consumer that joins after the look asks for its offsets, and the broker makes it wait while some are pending. Only a
  consumer that asks for unstable offsets does not wait: it begins as if it had joined before this commit.
- The look sees commits that a consumer or a person made before the sending. Commits after it are later in the group's
  log, and the broker keeps the later ones.
- Offsets that an application has sent in a transaction which is still open cannot be told from our own at that look.
  So the groups are asked for them right before the sending.
  What an application that is no member sends between the two, in its first transaction of all, is overtaken: the group
  may read again until its next one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError, Refused, Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.bounded import bounded
from k2k_assets.groups.decide import GroupDecision
from k2k_assets.groups.group_frame import GroupFrame
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.kafka import clients
from k2k_assets.transport.errors import Fenced, Restart
from k2k_assets.transport.producer_calls import call, claim

# If a transaction begins right after another one, the client waits so long for the broker to finish that one: so it
# must be short. A commit that takes 0.8 of it may have been sent twice (see `transport/librdkafka/producers.py`): so it
# must be longer than commits take.
RETRY_BACKOFF_MS = 100
_AMBIGUOUS_AFTER_SECONDS = 0.8 * RETRY_BACKOFF_MS / 1000
TRANSACTION_TIMEOUT_MS = 15_000

# Longest time to send offsets of a group; the client retries while its topic is deleted or its coordinator moves.
SEND_SECONDS = 5.0
BATCH_GROUPS = 250
_NO_TIME = "no time was left for it in this poll"
# In a poll so long groups are released; a call that has begun may take longer.
RELEASE_SECONDS = 5.0
BATCH_OFFSETS = 25_000
# The broker writes the offsets of one request as one batch, which must stay below its message size (1 MB by default).
_REQUEST_BYTES = 400_000
_OFFSET_BYTES = 100  # generous size of a written offset, without its names and its metadata


@dataclass(slots=True)
class CommitReport:
    """The result of a poll's commits.

    Attributes:
        committed: Groups with committed translations.
        active: Groups that had members at the look before the commit; nothing was committed for them.
        failed: Groups whose commit is uncertain, and groups in which others have committed since the decision, each
            with the reason; the next poll reads their commits again.
        pending: Those of them that have offsets pending in an open transaction, each with such a partition.
    """

    committed: list[str] = field(default_factory=list)
    active: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    pending: dict[str, TopicPartition] = field(default_factory=dict)

    def add(self, other: CommitReport) -> None:
        """Adds the result of another shard."""
        self.committed += other.committed
        self.active += other.active
        self.failed.update(other.failed)
        self.pending.update(other.pending)


class Shard:
    """Commits under one transactional id.

    Args:
        make_producer: Makes a producer with the id; the producer calls the given function when it has lost a broker.
        groups: The target's groups.
        frame: Makes the group metadata of commits.
        ensure_newest: Raises `Superseded` if a newer mapper exists.
        timeout: Seconds that any call may take.
    """

    def __init__(
        self,
        make_producer: Callable[[Callable[[KafkaError], None]], Producer],
        groups: TargetGroups,
        frame: GroupFrame,
        ensure_newest: Callable[[], None],
        timeout: float,
    ) -> None:
        self._make_producer = make_producer
        self._groups = groups
        self._frame = frame
        self._ensure_newest = ensure_newest
        self._timeout = timeout
        self._producer: Producer | None = None
        self._has_lost_a_broker = False
        # Last refusal of each group, monotonic seconds.
        self._refused: dict[str, float] = {}
        self._late: set[str] = set()

    def claim(self) -> None:
        """Initialises the transactional id with a new producer, which fences the former holder.

        Raises:
            Restart: The target did not answer in time.
            Refused: The principal may not use the id.
        """
        self._producer, self._has_lost_a_broker = None, False
        producer = self._make_producer(self._lost_a_broker)
        claim(producer, self._timeout, "claiming the mapper's transactional id")
        self._producer = producer

    def commit(self, decisions: Sequence[GroupDecision], metadata: str) -> CommitReport:
        """Commits offsets; an error of one group does not stop the others.

        Groups for which no time was left the last time come first. Those that were refused come last, each in a
        transaction of its own, within a share of the time; the group that has waited longest comes first.

        Raises:
            Superseded: A newer mapper exists.
        """
        report = CommitReport()
        fresh = [decision for decision in decisions if decision.group not in self._refused]
        again = sorted(
            (decision for decision in decisions if decision.group in self._refused),
            key=lambda decision: self._refused[decision.group],
        )
        fresh.sort(key=lambda decision: decision.group not in self._late)
        self._refused = {decision.group: self._refused[decision.group] for decision in again}
        self._commit(_batches(fresh), metadata, report, Deadline(2 * self._timeout))
        self._commit(([decision] for decision in again), metadata, report, Deadline(self._timeout / 2))
        for group in report.committed:
            self._refused.pop(group, None)
        self._late = {group for group, why in report.failed.items() if why == _NO_TIME}
        return report

    def _commit(
        self, batches: Iterable[Sequence[GroupDecision]], metadata: str, report: CommitReport, deadline: Deadline
    ) -> None:
        for batch in batches:
            left = list(batch)
            try:
                while left and not deadline.expired():
                    left = self._transaction(self._claimed(), left, metadata, report)
                why = _NO_TIME
            except (Restart, K2KError) as error:
                why = self._given_up(error)
            report.failed.update((decision.group, why) for decision in left)

    def release(self, stuck: Mapping[str, TopicPartition]) -> dict[str, str]:
        """Lets brokers drop what earlier transactions under this id have left pending for groups.

        The abort marker of a transaction ends all that is pending of the same producer there. What others have pending
        stays.

        Args:
            stuck: By group a partition whose offset is pending; the most urgent ones first.

        Returns:
            By group that was tried, in `RELEASE_SECONDS` and one at least, why it does not work now; empty if it does.

        Raises:
            Superseded: A newer mapper exists.
        """
        tried: dict[str, str] = {}
        left = deque(stuck.items())
        deadline = Deadline(min(RELEASE_SECONDS, self._timeout))
        while left and not (tried and deadline.expired()):
            tried |= self._released(left, deadline)
        return tried

    def _released(self, left: deque[tuple[str, TopicPartition]], deadline: Deadline) -> dict[str, str]:
        """Releases groups by one transaction, up to the first that is refused; takes them from `left`, one at least."""
        found: dict[str, str] = {}
        try:
            producer = self._claimed()
            call("beginning a transaction", producer.begin_transaction)
            while left and not any(found.values()) and not (found and deadline.expired()):
                group, (topic, partition) = left.popleft()
                found[group] = ""
                found[group] = self._send(producer, group, [[KafkaTopicPartition(topic, partition, 0)]]) or ""
            self._abort(producer)
        except (Restart, K2KError) as error:
            names = found or [left.popleft()[0]]
            return dict.fromkeys(names, self._given_up(error))
        return found

    def _given_up(self, error: Exception) -> str:
        """Gives the producer up, whose state cannot be trusted any more; returns the error in words.

        Raises:
            Superseded: A newer mapper exists.
        """
        self._producer = None
        if isinstance(error, Superseded):
            raise error
        if isinstance(error, Fenced):
            self._ensure_newest()
        return str(error)

    def close(self) -> None:
        """Closes the producer."""
        self._producer = None

    def _lost_a_broker(self, _: KafkaError) -> None:
        self._has_lost_a_broker = True

    def _claimed(self) -> Producer:
        if self._producer is not None:
            self._producer.poll(0)  # takes in errors that occurred since
            if self._has_lost_a_broker:
                self._producer = None  # this producer may never find coordinators of groups again (librdkafka 2.16)
        if self._producer is None:
            # A mapper that was superseded while it had no producer would fence its successor and cost it a poll.
            self._ensure_newest()
            self.claim()
            # A newer mapper writes its claim before it fences: if this check does not see it, it will fence this id.
            self._ensure_newest()
        assert self._producer is not None
        return self._producer

    def _transaction(
        self, producer: Producer, decisions: list[GroupDecision], metadata: str, report: CommitReport
    ) -> list[GroupDecision]:
        """Commits one transaction with as many groups as time allows; returns the groups that are left."""
        # Of two transactions the later sent offsets count, whichever ends last: an application would lose its own.
        pending = self._groups.pending({each.group: each.commits for each in decisions})
        report.failed.update((group, why) for group, (_, why) in pending.items())
        report.pending.update((group, partition) for group, (partition, _) in pending.items())
        decisions = [each for each in decisions if each.group not in pending]
        if not decisions:
            return []
        call("beginning a transaction", producer.begin_transaction)
        sent: list[GroupDecision] = []
        deadline = Deadline(TRANSACTION_TIMEOUT_MS / 3000)
        while len(sent) < len(decisions) and not deadline.expired():
            decision = decisions[len(sent)]
            refusal = self._send(producer, decision.group, _requests(decision, metadata))
            if refusal is not None:
                report.failed[decision.group] = refusal
                self._refused[decision.group] = time.monotonic()
                self._abort(producer)
                return [each for each in decisions if each is not decision]
            sent.append(decision)
        active = self._active(sent)
        changed = self._groups.changed({each.group: each.replaces for each in sent if each.group not in active})
        if active or changed:
            self._abort(producer)
            report.active += sorted(active)
            report.failed.update(changed)
            return [each for each in decisions if each.group not in active and each.group not in changed]
        self._end(producer)
        report.committed += [each.group for each in sent]
        return decisions[len(sent) :]

    def _send(self, producer: Producer, group: str, requests: Iterable[list[KafkaTopicPartition]]) -> str | None:
        """Sends a group's offsets; returns the error if they are refused for this group.

        Raises:
            Fenced: Another producer holds the transactional id now.
        """
        step, timeout = f"committing offsets of {group}", min(self._timeout, SEND_SECONDS)
        for offsets in requests:
            try:
                frame = self._frame.of(group)
                bounded(step, timeout + 5, partial(producer.send_offsets_to_transaction, offsets, frame, timeout))
            except KafkaException as exception:
                error = clients.error_of(exception)
                if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return "the target has a group of this name that is no consumer group"
                try:
                    call(step, _raise, exception)
                except Fenced:
                    raise
                except (Restart, Refused) as raised:
                    # Perhaps only this group's coordinator is down: the other groups are tried without it.
                    if not error.txn_requires_abort():
                        self._producer = None
                    return str(raised)
        return None

    def _abort(self, producer: Producer) -> None:
        if self._producer is not None:
            call("aborting", producer.abort_transaction, self._timeout)

    def _active(self, sent: Sequence[GroupDecision]) -> set[str]:
        states = self._groups.states()
        return {each.group for each in sent if each.group in states and states[each.group].active}

    def _end(self, producer: Producer) -> None:
        started = time.monotonic()
        call("committing", producer.commit_transaction, -1)
        if time.monotonic() - started > _AMBIGUOUS_AFTER_SECONDS:
            self._producer = None  # committed, but a second copy of the request could end the next transaction


def _batches(decisions: Sequence[GroupDecision]) -> Iterator[list[GroupDecision]]:
    batch: list[GroupDecision] = []
    offsets = 0
    for decision in decisions:
        if batch and (len(batch) == BATCH_GROUPS or offsets + len(decision.commits) > BATCH_OFFSETS):
            yield batch
            batch, offsets = [], 0
        batch.append(decision)
        offsets += len(decision.commits)
    if batch:
        yield batch


def _requests(decision: GroupDecision, metadata: str) -> Iterator[list[KafkaTopicPartition]]:
    request: list[KafkaTopicPartition] = []
    size = 0
    fixed = len(decision.group.encode()) + len(metadata.encode()) + _OFFSET_BYTES
    for target, offset in decision.commits.items():
        if size > _REQUEST_BYTES:
            yield request
            request, size = [], 0
        request.append(KafkaTopicPartition(target.topic, target.partition, offset, metadata=metadata))
        size += fixed + len(target.topic)
    yield request


def _raise(exception: KafkaException) -> Any:
    raise exception
