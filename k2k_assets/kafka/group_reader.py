"""Reads the consumer groups of a cluster: the states of all, the offsets of many at once. Every call has a deadline."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from enum import Enum
from functools import partial
from queue import Empty, SimpleQueue

from confluent_kafka import ConsumerGroupState as KafkaState
from confluent_kafka import ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupListing

from k2k_assets.core.bulk import without_cycle_collection
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.groups import CommittedOffset, Fetched, GroupKind, GroupOffsets, GroupState

log = logging.getLogger("k2k.groups")

_Answer = tuple[str, Future[ConsumerGroupTopicPartitions]]

# Each group is one small request: so many in flight keep both sides busy without filling the broker's request queue.
IN_FLIGHT = 128
# Offsets that an application sent in a transaction are pending for some milliseconds, until it commits. Those of a
# transaction that stays open longer are left for the next poll.
SETTLE_SECONDS = 1.0
# At most so many groups share a deadline, so that it is long enough for each of them.
AT_ONCE = 2000
# When no answer comes for so long, the requests in flight may wait for a coordinator that is gone: others are sent too.
_HELD_UP_SECONDS = 0.25
_SETTLE_PAUSE = 0.02

_KINDS: dict[Enum, GroupKind] = {
    ConsumerGroupType.CLASSIC: GroupKind.CLASSIC,
    ConsumerGroupType.CONSUMER: GroupKind.CONSUMER,
}
# Error codes of a coordinator that is moving, or has just been started.
_LOADING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
_WITHOUT_MEMBERS = {KafkaState.EMPTY, KafkaState.DEAD}


def list_states(cluster: Cluster, partial: bool = False) -> dict[str, GroupState]:
    """State and kind of every consumer group, in one request to each broker.

    Args:
        cluster: The cluster to ask.
        partial: Whether the groups of those brokers that answer are enough.

    Raises:
        ClusterUnreachable: No broker answered; or, unless `partial`, one did not answer or still loads its groups.
        Refused: The principal may not list groups.
    """
    try:
        asked = cluster.admin.list_consumer_groups(request_timeout=cluster.timeout)
        listing = asked.result(timeout=cluster.timeout + 5)
    except KafkaException as error:
        raise failure(cluster, clients.error_of(error)) from None
    except TimeoutError:
        raise unreachable(cluster, "listing consumer groups took too long") from None
    if listing.errors:
        first = listing.errors[0]
        why = clients.error_of(first) if isinstance(first, KafkaException) else first
        if not (partial and listing.valid):
            raise failure(cluster, why)
        log.warning("some brokers of the %s did not list their consumer groups: %s", cluster, why.str())
    states: dict[str, GroupState] = {}
    for group in listing.valid:
        # Very old consumers may have committed for the group named "", for which the client sends no requests.
        if group.group_id:
            known, told = states.get(group.group_id), _state(group)
            # A broker that has lost the group without knowing it lists its old state too: if either state has members,
            # the group counts as active.
            states[group.group_id] = known if known is not None and known.active else told
    return states


def list_others(cluster: Cluster, consumer_groups: Collection[str]) -> list[str]:
    """Names of groups that are no consumer groups (share groups, Kafka Connect's, ...); empty if the call fails.

    Args:
        cluster: The cluster to ask.
        consumer_groups: The groups that `list_states` found before.
    """
    # librdkafka's newer call leaves these groups out. The old one lists them; its Python wrapper only adds a warning.
    old_call = getattr(super(AdminClient, cluster.admin), "list_groups", None)
    try:
        listing = old_call(timeout=cluster.timeout) if old_call else []
    except KafkaException:
        return []
    known = set(consumer_groups)
    return sorted(group.id for group in listing if group.id not in known and group.protocol_type != "consumer")


def fetch_offsets(
    cluster: Cluster,
    groups: Iterable[str],
    topics: Collection[str] | None = None,
    stable: bool = True,
    named: Mapping[str, Collection[TopicPartition]] | None = None,
) -> Fetched:
    """Committed offsets of many groups, with some hundred requests in flight.

    Args:
        cluster: The cluster to ask.
        groups: Names; a group that does not exist has no offsets.
        topics: Only partitions of these topics; None: all.
        stable: Whether to wait for offsets that an open transaction has sent (Kafka's `require_stable`); else the
            answer is the offset before it.
        named: By group the only partitions to ask for; None or missing: all. Only of named partitions a broker tells
            that offsets are pending where the group has no earlier commit.

    Returns:
        The answers. Groups whose coordinator is loading, or whose offsets are pending in an open transaction, are asked
        again for a moment. A group with offsets that are still pending then is in `groups` with its other partitions,
        and in `failed`.

    Raises:
        ClusterUnreachable: No coordinator answered.
    """
    wanted, of_topics = list(groups), None if topics is None else set(topics)
    found = Fetched()
    for first in range(0, len(wanted), AT_ONCE):
        some = wanted[first : first + AT_ONCE]
        by_name = {name: tuple(named[name]) for name in some if name in named} if named else None
        try:
            answered = cluster.apart(fetch_offsets_here, some, of_topics, stable, by_name)
        except ClusterUnreachable as error:
            if not found.groups:
                raise
            found.failed.update(dict.fromkeys(some, str(error)))
            continue
        found.groups.update(answered.groups)
        found.failed.update(answered.failed)
    return found


@without_cycle_collection()
def fetch_offsets_here(
    cluster: Cluster,
    groups: Iterable[str],
    topics: Collection[str] | None = None,
    stable: bool = True,
    named: Mapping[str, Collection[TopicPartition]] | None = None,
) -> Fetched:
    """Does the work of `fetch_offsets` in this process, which the client can crash (see `kafka/apart.py`)."""
    deadline = Deadline(cluster.timeout)
    reader = _Reader(cluster, None if topics is None else frozenset(topics), stable, named or {})
    result = Fetched()
    reader.ask(groups, deadline, result)
    settle = Deadline(min(SETTLE_SECONDS, deadline.remaining()))
    while (again := reader.unsettled(result)) and not settle.expired():
        time.sleep(_SETTLE_PAUSE)
        reader.ask(again, deadline, result)
    for name in (name for name, group in result.groups.items() if group.unstable):
        pending = ", ".join(map(str, sorted(result.groups[name].unstable)[:5]))
        result.failed.setdefault(name, f"its offsets of {pending} are pending in an open transaction")
    if result.failed and not result.groups and reader.last_unreachable:
        raise unreachable(cluster, reader.last_unreachable)
    return result


class _Reader:
    def __init__(
        self,
        cluster: Cluster,
        topics: frozenset[str] | None,
        stable: bool,
        named: Mapping[str, Collection[TopicPartition]],
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._stable = stable
        self._named = named
        # One object for each partition: a hundred thousand offsets share some hundred partitions.
        self._partitions: dict[tuple[str, int], TopicPartition] = {}
        self._loading: set[str] = set()
        self.last_unreachable: str | None = None

    def unsettled(self, result: Fetched) -> list[str]:
        """Groups to ask again: their coordinator is loading, or some of their offsets are pending."""
        return [*self._loading, *(name for name, group in result.groups.items() if group.unstable)]

    def ask(self, groups: Iterable[str], deadline: Deadline, result: Fetched) -> None:
        waiting, answered = deque(groups), SimpleQueue[_Answer]()
        asked: set[str] = set()
        slots = IN_FLIGHT
        late = Deadline(deadline.remaining() + 5)
        self._loading = set()
        while waiting or asked:
            while waiting and len(asked) < slots:
                group = waiting.popleft()
                asked.add(group)
                self._question(group, deadline).add_done_callback(partial(_put, answered, group))
            try:
                group, future = answered.get(timeout=min(_HELD_UP_SECONDS, late.remaining() + 0.01))
            except Empty:
                slots = len(asked) + IN_FLIGHT  # requests without an answer take no place of those that follow
                if late.expired():
                    break
                continue
            asked.discard(group)
            self._take(group, future, result)
        for group in (*asked, *waiting):
            result.failed[group] = self.last_unreachable = "no answer in time"

    def _question(self, group: str, deadline: Deadline) -> Future[ConsumerGroupTopicPartitions]:
        named = [KafkaTopicPartition(*partition) for partition in self._named.get(group, ())]
        futures: dict[str, Future[ConsumerGroupTopicPartitions]] = self._cluster.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, named or None)],
            require_stable=self._stable,
            request_timeout=max(0.1, deadline.remaining()),
        )
        return futures[group]

    def _take(self, group: str, future: Future[ConsumerGroupTopicPartitions], result: Fetched) -> None:
        try:
            found = future.result(timeout=0).topic_partitions or ()
        except KafkaException as exception:
            error = clients.error_of(exception)
            result.failed[group] = f"{error.str()} ({error.name()})"
            if clients.is_unreachable(error):
                self.last_unreachable = error.str()
            if error.code() in _LOADING:
                self._loading.add(group)
        except TimeoutError:
            result.failed[group] = self.last_unreachable = "no answer in time"
        else:
            result.failed.pop(group, None)
            result.groups[group] = self._offsets(group, found, result)

    def _offsets(self, group: str, found: Iterable[KafkaTopicPartition], result: Fetched) -> GroupOffsets:
        offsets: dict[TopicPartition, CommittedOffset] = {}
        unstable = []
        for item in found:
            topic = item.topic
            if self._topics is not None and topic not in self._topics:
                continue
            key = (topic, item.partition)
            partition = self._partitions.get(key)
            if partition is None:
                partition = self._partitions[key] = TopicPartition(*key)
            offset = item.offset
            if offset >= 0:
                offsets[partition] = CommittedOffset(offset, item.metadata or "", item.leader_epoch)
            elif item.error is None:
                continue  # the group has no commit for this partition
            else:
                unstable.append(partition)
                if item.error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT:
                    result.failed[group] = f"{partition}: {item.error.str()} ({item.error.name()})"
        return GroupOffsets(group, offsets, frozenset(unstable))


def _put(answered: SimpleQueue[_Answer], group: str, future: Future[ConsumerGroupTopicPartitions]) -> None:
    answered.put((group, future))


def failure(cluster: Cluster, error: KafkaError) -> ClusterUnreachable | Refused:
    """Turns a Kafka error into an error of this project; a coordinator that still loads counts as unreachable."""
    if clients.is_unreachable(error) or error.code() in _LOADING:
        return unreachable(cluster, error.str())
    return clients.refused(f"the {cluster} refused", error)


def unreachable(cluster: Cluster, why: str) -> ClusterUnreachable:
    """Makes the error for a cluster that does not answer."""
    return clients.unreachable(cluster.role, {"bootstrap.servers": cluster.servers}, why)


def _state(group: ConsumerGroupListing) -> GroupState:
    # Brokers before 2.6 tell no state, brokers before 4.0 no kind, and librdkafka does not know all states.
    kind = _KINDS.get(group.type, GroupKind.CLASSIC)
    name = group.state.name.lower() if group.state is not None else "unknown"
    return GroupState(kind, group.state not in _WITHOUT_MEMBERS, name)
