"""One Kafka cluster, asked through an admin client: topics, ids, configs, offsets. Every call has a deadline."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ConfigSource,
    ListOffsetsResultInfo,
    OffsetSpec,
    ResourceType,
)

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, Hidden
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import ACLS_HINT
from k2k_assets.kafka import clients
from k2k_assets.kafka.answers import UNSETTLED, ClusterAnswers, Unanswered, Unsettled, ask_until_settled, in_thread
from k2k_assets.kafka.apart import Apart, Died
from k2k_assets.kafka.topic_ids import topic_id

Role = Literal["source", "target"]
P = ParamSpec("P")
T = TypeVar("T")
Which = Literal["earliest", "latest", "stable"]

log = logging.getLogger("k2k.kafka")

# The default time-out of each call.
ANSWER_SECONDS = 15.0
_POLL_SECONDS = 0.2
# Longest wait for one answer while the cluster lists no brokers. A client that was told of no broker forgets those that
# it knew, and may never find one again (librdkafka 2.16).
_AGAIN_SECONDS = 2.0
_NOBODY = "none of its brokers takes part in it"
# Added to the time-out of a call in the child process: on a busy machine it starts late, and asks for many groups.
_APART_SECONDS = 30.0
# So many refused logins end a call. One or two are normal while the brokers have not heard of a new user yet.
_REFUSALS = 5
_SPECS: dict[Which, tuple[OffsetSpec, IsolationLevel]] = {
    "earliest": (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    "latest": (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    "stable": (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
}

_HIDDEN = object()
_WITHOUT_DESCRIPTION = {KafkaError.UNKNOWN_TOPIC_OR_PART: None, KafkaError.TOPIC_AUTHORIZATION_FAILED: _HIDDEN}


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as a cluster describes it.

    Attributes:
        name: Name of the topic.
        topic_id: Its id, which changes when the topic is deleted and created anew.
        partitions: Number of partitions.
    """

    name: str
    topic_id: str
    partitions: int


class ConfigValue(NamedTuple):
    """The value of a config.

    Attributes:
        value: The value that is in force.
        is_changed: Whether it is set on the topic itself, and no default.
    """

    value: str
    is_changed: bool


class Cluster:
    """A cluster seen through an admin client.

    Args:
        role: Names it in errors.
        properties: Client settings, librdkafka names.
        timeout: Seconds that any call may take; None: `ANSWER_SECONDS`.
    """

    def __init__(self, role: Role, properties: Mapping[str, object], timeout: float | None = None) -> None:
        self.role = role
        self.timeout = ANSWER_SECONDS if timeout is None else timeout
        self._properties = dict(properties)
        self._last_error: str | None = None
        self._admin: AdminClient | None = None
        self._apart: Apart | None = None
        self._old: list[AdminClient] = []
        self._has_answered = False
        self._making = threading.Lock()
        self._knows_leaders = False
        self._refusals = 0

    @property
    def servers(self) -> str:
        """The bootstrap addresses."""
        return str(self._properties.get("bootstrap.servers", "?"))

    @property
    def admin(self) -> AdminClient:
        """The admin client, made at its first use."""
        with self._making:  # if two threads made one each, the one that is dropped would die with its requests
            if self._admin is None:
                self._admin = clients.admin(self._properties, {"error_cb": self._remember})
            return self._admin

    def apart(self, function: Callable[Concatenate[Cluster, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        """Calls a function that can crash librdkafka in a child process (see `kafka/apart.py`).

        When the child dies, another one is started and tries again, as long as there is time.

        Args:
            function: A function of a module that may be started twice. Its first argument is a cluster like this one.
            arguments: Its other positional arguments; they are copied to the child, and the answer is copied back.
            named: Its keyword arguments, copied likewise.

        Raises:
            ClusterUnreachable: Each child died.
        """
        deadline = Deadline(self.timeout)
        while True:
            with self._making:
                asker = self._apart = self._apart or Apart(self.role, self._properties, self.timeout)
            try:
                answer: T = asker.call(function, arguments, named, 2 * self.timeout + _APART_SECONDS)
                return answer
            except Died as death:
                with self._making:
                    if self._apart is asker:
                        self._apart = None
                why = f"the process that asks it died: {death}"
            if deadline.expired():
                raise clients.unreachable(self.role, self._properties, why)
            log.info("%s: %s. Another one is started", self, why)
            time.sleep(min(_POLL_SECONDS, deadline.remaining()))

    def close(self) -> None:
        """Closes the client, and ends the child process of `apart`."""
        self._admin = None
        self._old.clear()
        self._knows_leaders = False
        self.end_apart()

    def end_apart(self) -> None:
        """Ends the child process of `apart`, which a long-lived program may not need for a while."""
        with self._making:
            asker, self._apart = self._apart, None
        if asker is not None:
            asker.close()

    def _put_aside(self) -> None:
        """Lets the next call make a new client; the old one lives on a while, for requests that are under way."""
        with self._making:
            if self._admin is not None:
                self._old = [*self._old[-1:], self._admin]
            self._admin = None
        self._knows_leaders = False

    def renew_if_disturbed(self) -> None:
        """Drops a client that has lost a broker: it may never find the controller or a coordinator again."""
        if self._admin is not None:
            self._admin.poll(0)
        if self._last_error is not None:
            self.close()
            self._last_error = None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self.role} cluster ({self.servers})"

    def cluster_id(self) -> str:
        """The cluster id."""
        return str(self._metadata().cluster_id)

    def topics(self) -> dict[str, int]:
        """All topics but Kafka's internal ones, with their partition counts."""
        return {
            name: len(topic.partitions)
            for name, topic in self._metadata().topics.items()
            if topic.error is None and name not in ("__consumer_offsets", "__transaction_state", "__share_group_state")
        }

    def brokers(self) -> list[int]:
        """The ids of the brokers that are in the cluster now; at least one."""
        return sorted(self._metadata().brokers)

    def _metadata(self) -> ClusterMetadata:
        """Fetches brokers and topics; waits while the answer lists no broker, as for a moment after one was frozen.

        It does not use `describe_cluster`: when no broker is listed, that answer aborts the process (librdkafka 2.16:
        "Assertion `rko_result' failed").

        Raises:
            ClusterUnreachable: No answer in time, or none that lists a broker.
        """
        deadline, nobody = Deadline(self.timeout), False
        while True:
            try:
                asked = in_thread(partial(self.admin.list_topics, timeout=self._patience(deadline, nobody)))
                found = self._result(asked)
                if found.brokers:
                    self._has_answered = self._knows_leaders = True
                    return found
                nobody = True
            except KafkaException as raised:
                error = clients.error_of(raised)
                if error.code() == KafkaError._PARTIAL:
                    nobody = True
                else:
                    said = self._translated(raised)
                    self._put_aside()
                    if not clients.is_unreachable(error) or not (nobody or self._has_answered):
                        raise said from None
            except TimeoutError:
                self._put_aside()
                raise self._silent() from None
            if deadline.expired():
                break
            time.sleep(min(_POLL_SECONDS, deadline.remaining()))
        raise clients.unreachable(self.role, self._properties, _NOBODY) if nobody else self._silent()

    def _patience(self, deadline: Deadline, nobody: bool) -> float:
        """Longest time for one request, in seconds: all that is left if the cluster has never answered."""
        longest = _AGAIN_SECONDS if nobody else self.timeout / 3 if self._has_answered else self.timeout
        return min(longest, deadline.remaining())

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription]:
        """Fetches topic ids and partition counts; topics that do not exist are left out.

        Raises:
            Hidden: The principal may not describe one of them.
        """
        return self.describe_async(names)()

    def describe_async(self, names: Collection[str], partly: bool = False) -> Callable[[], dict[str, TopicDescription]]:
        """Sends the request of `describe` and returns a function that waits for the answer, to overlap other work.

        Args:
            names: Topics that may exist.
            partly: Whether topics that the principal may not describe are left out, too.
        """
        if not names:
            return dict
        asked = self.admin.describe_topics(TopicCollection(list(dict.fromkeys(names))), request_timeout=self.timeout)

        def answer() -> dict[str, TopicDescription]:
            found = {}
            for name, future in asked.items():
                topic = self.answer(future, _WITHOUT_DESCRIPTION)
                if topic is _HIDDEN and not partly:
                    raise Hidden(f"the {self} does not let the topic {name} be seen. {ACLS_HINT}", name)
                if topic is not None and topic is not _HIDDEN:
                    found[name] = TopicDescription(name, topic_id(topic), len(topic.partitions))
            return found

        return answer

    def topic_configs(self, names: Collection[str], only_changed: bool = True) -> dict[str, dict[str, str]]:
        """Fetches the configs of topics.

        Args:
            names: Existing topics.
            only_changed: Whether configs at their defaults are left out.
        """
        return {
            name: {key: each.value for key, each in values.items() if each.is_changed or not only_changed}
            for name, values in self.config_values(names).items()
        }

    def config_values(self, names: Collection[str]) -> dict[str, dict[str, ConfigValue]]:
        """Fetches the configs of existing topics, also those at their defaults, with one call for all of them."""
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        asked = self.admin.describe_configs(resources, request_timeout=self.timeout)
        changed = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            resource.name: {
                entry.name: ConfigValue(entry.value, entry.source == changed)
                for entry in self._await(future).values()
                if entry.value is not None
            }
            for resource, future in asked.items()
        }

    def replicas(self, names: Collection[str]) -> dict[str, int]:
        """The lowest replica count among the partitions of each topic; topics that do not exist are left out."""
        return {name: min(map(len, partitions)) for name, partitions in self.replica_ids(names).items()}

    def replica_ids(self, names: Collection[str]) -> dict[str, list[list[int]]]:
        """The ids of the brokers of each partition of topics, its preferred leader first.

        Topics that do not exist are left out.
        """
        if not names:
            return {}
        asked = self.admin.describe_topics(TopicCollection(list(names)), request_timeout=self.timeout)
        found = {name: self._await(future, missing=KafkaError.UNKNOWN_TOPIC_OR_PART) for name, future in asked.items()}
        return {
            name: [[node.id for node in p.replicas] for p in sorted(topic.partitions, key=attrgetter("id"))]
            for name, topic in found.items()
            if topic
        }

    def broker_config(self, name: str) -> str | None:
        """A config of the brokers, asked of one of them; None if it knows no such config.

        Raises:
            Refused: The principal may not see broker configs.
        """
        resource = ConfigResource(ResourceType.BROKER, str(self.brokers()[0]))
        (future,) = self.admin.describe_configs([resource], request_timeout=self.timeout).values()
        entry = self._await(future).get(name)
        return entry.value if entry else None

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        which: Which,
        without_leader: dict[TopicPartition, str] | None = None,
        patience: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Log starts or ends of partitions; partitions that do not exist are left out.

        Args:
            partitions: Existing partitions.
            which: `earliest` = log start, `latest` = high watermark, `stable` = last stable offset.
            without_leader: Gets the partitions without a leader, with the reasons, if others have one. None: all
                leaders have to answer.
            patience: Seconds to wait for leaders once a broker has answered; 0 to ask once; None for the time-out of
                all calls.

        Raises:
            NoLeader: A partition that has to answer has no leader, or no partition has one.
            ClusterUnreachable: No answer in time.
            Refused: The principal may not describe one of the topics.
        """
        spec, isolation = _SPECS[which]
        ends = self._list(dict.fromkeys(partitions, spec), isolation, without_leader, patience)
        return {tp: int(found.offset) for tp, found in ends.items()}

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader epoch at the end of each partition; partitions that do not exist, or have none, are left out."""
        ends = self._list(dict.fromkeys(partitions, _SPECS["latest"][0]))
        return {
            tp: end.leader_epoch for tp, end in ends.items() if end.leader_epoch is not None and end.leader_epoch >= 0
        }

    def offset_at(self, partition: TopicPartition, timestamp: int) -> int | None:
        """The first offset whose record is not older than a time; the last stable offset if there is no such record.

        Args:
            partition: The partition; if it does not exist, the answer is None.
            timestamp: Milliseconds since the epoch, UTC.
        """
        return self.offsets_at([partition], timestamp).get(partition)

    def offsets_at(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int,
        without_leader: dict[TopicPartition, str] | None = None,
        patience: float | None = None,
    ) -> dict[TopicPartition, int]:
        """As `offset_at`, of several partitions; those that do not exist are left out.

        Args:
            partitions: Existing partitions.
            timestamp: Milliseconds since the epoch, UTC.
            without_leader: As for `offsets`.
            patience: As for `offsets`.
        """
        spec = OffsetSpec.for_timestamp(timestamp)
        found = self._list(dict.fromkeys(partitions, spec), without_leader=without_leader, patience=patience)
        younger = [tp for tp, at in found.items() if at.offset < 0]
        ends = self.offsets(younger, "stable", without_leader, patience)
        return {tp: int(at.offset) for tp, at in found.items() if at.offset >= 0} | ends

    def partitions_of(self, names: Collection[str]) -> list[TopicPartition]:
        """All partitions of those topics that exist."""
        return [
            TopicPartition(topic.name, p) for topic in self.describe(names).values() for p in range(topic.partitions)
        ]

    def _list(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        without_leader: dict[TopicPartition, str] | None = None,
        patience: float | None = None,
    ) -> dict[TopicPartition, ListOffsetsResultInfo]:
        """Offsets of those partitions that exist; see `offsets`."""
        if not wanted:
            return {}

        def ask(partitions: Collection[TopicPartition]) -> ClusterAnswers[ListOffsetsResultInfo | None]:
            specs = {KafkaTopicPartition(*tp): wanted[tp] for tp in partitions}
            asked = self.admin.list_offsets(specs, isolation_level=isolation, request_timeout=self.timeout)
            places = {TopicPartition(t.topic, t.partition): future for t, future in asked.items()}
            unknown: set[TopicPartition] = set()
            answers = ClusterAnswers.of({tp: partial(self._await_offset, f, tp, unknown) for tp, f in places.items()})
            if unknown:
                counts = self.topics()  # the client knows them from now on
                for tp in unknown:
                    if tp.partition >= counts.get(tp.topic, 0):
                        del answers.failed[tp]
                        answers.found[tp] = None
            return answers

        if not self._knows_leaders:
            # A new client that has to find the leaders itself does so only one to three seconds later.
            self._metadata()
        try:
            found = ask_until_settled(self, wanted, ask, without_leader, patience)
        except Unanswered:
            why = self._last_error or "offsets were asked for, no answer in time"
            raise clients.unreachable(self.role, self._properties, why) from None
        return {tp: end for tp, end in found.items() if end is not None}

    def _await_offset(
        self, future: Future[Any], tp: TopicPartition, unknown: set[TopicPartition]
    ) -> ListOffsetsResultInfo | None:
        """Waits for one offset: None if the partition does not exist, negative if it has no such offset.

        Args:
            future: The future that the admin client returned.
            tp: The partition.
            unknown: Gets the partition if the client does not know it, because it was added since the client looked.
        """
        found: ListOffsetsResultInfo | Literal["unknown"] | None = self.answer(
            future, {KafkaError.UNKNOWN_TOPIC_OR_PART: None, KafkaError._UNKNOWN_PARTITION: "unknown"}
        )
        if found == "unknown":
            unknown.add(tp)
            raise Unsettled("the client does not know the partition yet")
        if found is not None and found.offset == OFFSET_INVALID:
            # librdkafka 2.16 reports no error for a failed request: it returns its initial value.
            raise Unanswered
        return found

    def answer(self, future: Future[Any], instead: Mapping[int, Any]) -> Any:
        """Waits for an answer of the admin client.

        Args:
            future: The future that the admin client returned.
            instead: Values to return instead of raising, by error code.

        Raises:
            ClusterUnreachable: No answer in time.
            NotAllowed: The principal lacks a right.
            Refused: Another error.
        """
        try:
            return self._result(future)
        except KafkaException as error:
            code = clients.error_of(error).code()
            if code in instead:
                return instead[code]
            if code in UNSETTLED:
                raise Unsettled(clients.error_of(error).str()) from None
            raise self._translated(error) from None
        except TimeoutError:
            raise self._silent() from None

    def _await(self, future: Future[Any], missing: int | None = None) -> Any:
        return self.answer(future, {} if missing is None else {missing: None})

    def _result(self, future: Future[T]) -> T:
        """Waits for an answer, but gives up early when the cluster refuses the login again and again."""
        self.admin.poll(0)
        self._refusals = 0
        deadline = Deadline(self.timeout + 5)
        while self._refusals < _REFUSALS:
            with suppress(TimeoutError):
                return future.result(timeout=min(_POLL_SECONDS, deadline.remaining()))
            if deadline.expired():
                break
            self.admin.poll(0)
        raise TimeoutError

    def _translated(self, exception: KafkaException) -> Exception:
        error = clients.error_of(exception)
        if clients.is_unreachable(error):
            self.admin.poll(0)
            return clients.unreachable(self.role, self._properties, self._last_error or error.str())
        return clients.refused(f"the {self} refused", error)

    def _silent(self) -> ClusterUnreachable:
        return clients.unreachable(self.role, self._properties, self._last_error or "no answer in time")

    def _remember(self, error: KafkaError) -> None:
        self._refusals += clients.is_refused_login(error)
        # "All brokers are down" comes last, and says less than the errors of the single brokers.
        if self._last_error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error.str()
