"""One Kafka cluster, asked through an admin client: topics, ids, configs, offsets. Every call has a deadline."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable, Hidden
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import ACLS_HINT
from k2k_assets.kafka import clients
from k2k_assets.kafka.apart import Apart, Died
from k2k_assets.kafka.cluster_offsets import ClusterOffsets
from k2k_assets.kafka.connection import POLL_SECONDS, Role
from k2k_assets.kafka.topic_ids import topic_id

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("k2k.kafka")

# Added to the time-out of a call in the child process: on a busy machine it starts late, and asks for many groups.
_APART_SECONDS = 30.0

# A request that is sent again has so many seconds at least.
_SHORTEST = 1.0
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


class SeenTopics(NamedTuple):
    """What a cluster tells of topics.

    Attributes:
        topics: Those that exist, by name.
        hidden: Those that the principal may not see, each with the error for it.
    """

    topics: dict[str, TopicDescription]
    hidden: dict[str, Hidden]


class SeenConfigs(NamedTuple):
    """What a cluster tells of the configs of topics; nothing of topics that do not exist, or not yet.

    Attributes:
        configs: All configs of those that may be seen, by topic.
        hidden: Those whose configs the principal may not see.
    """

    configs: dict[str, dict[str, ConfigValue]]
    hidden: set[str]


class ConfigValue(NamedTuple):
    """The value of a config.

    Attributes:
        value: The value that is in force.
        is_changed: Whether it is set on the topic itself, and no default.
    """

    value: str
    is_changed: bool


class Cluster(ClusterOffsets):
    """A cluster seen through an admin client.

    Args:
        role: Names it in errors.
        properties: Client settings, librdkafka names.
        timeout: Seconds that any call may take; None: that of `Connection`.
    """

    def __init__(self, role: Role, properties: Mapping[str, object], timeout: float | None = None) -> None:
        super().__init__(role, properties, timeout)
        self._apart: Apart | None = None

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
            time.sleep(min(POLL_SECONDS, deadline.remaining()))

    def close(self) -> None:
        """Closes the client, and ends the child process of `apart`."""
        super().close()
        self.end_apart()

    def end_apart(self) -> None:
        """Ends the child process of `apart`, which a long-lived program may not need for a while."""
        with self._making:
            asker, self._apart = self._apart, None
        if asker is not None:
            asker.close()

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription]:
        """Fetches topic ids and partition counts; topics that do not exist are left out.

        Raises:
            Hidden: The principal may not describe one of them.
        """
        return self.describe_async(names)()

    def describe_async(self, names: Collection[str], partly: bool = False) -> Callable[[], dict[str, TopicDescription]]:
        """Sends the request of `describe` and returns a function that waits for the answer, to overlap other work.

        A broker that goes takes requests with it: they are sent again, to another one, as long as there is time.

        Args:
            names: Topics that may exist.
            partly: Whether topics that the principal may not describe are left out, too.
        """
        asked = self.seen_async(names)

        def answer() -> dict[str, TopicDescription]:
            seen = asked()
            for reason in () if partly else seen.hidden.values():
                raise reason
            return seen.topics

        return answer

    def seen_async(self, names: Collection[str]) -> Callable[[], SeenTopics]:
        """As `describe_async`, and tells which of the topics may not be seen.

        Args:
            names: Topics that may exist.
        """
        if not names:
            return partial(SeenTopics, {}, {})
        deadline, asked = Deadline(self.timeout), self._asked_to_describe(names, self.timeout)

        def answer() -> SeenTopics:
            seen = SeenTopics({}, {})
            for name, future in asked.items():
                topic = self._described(name, future, deadline)
                if topic is _HIDDEN:
                    seen.hidden[name] = Hidden(f"the {self} does not let the topic {name} be seen. {ACLS_HINT}", name)
                elif topic is not None:
                    seen.topics[name] = TopicDescription(name, topic_id(topic), len(topic.partitions))
            return seen

        return answer

    def _asked_to_describe(self, names: Collection[str], timeout: float) -> Mapping[str, Future[Any]]:
        topics = TopicCollection(list(dict.fromkeys(names)))
        answers: Mapping[str, Future[Any]] = self.admin.describe_topics(topics, request_timeout=timeout)
        return answers

    def _described(self, name: str, asked: Future[Any], deadline: Deadline) -> Any:
        """The answer about a topic, which is asked for again while connections break; None, or hidden, as it says."""
        while True:
            try:
                return self.answer(asked, _WITHOUT_DESCRIPTION)
            except ClusterUnreachable:
                if deadline.expired() or not clients.has_lost_connection(asked):
                    raise
            time.sleep(min(POLL_SECONDS, deadline.remaining()))
            (asked,) = self._asked_to_describe([name], max(_SHORTEST, deadline.remaining())).values()

    def topic_configs(
        self, names: Collection[str], only_changed: bool = True, partly: bool = False
    ) -> dict[str, dict[str, str]]:
        """Fetches the configs of topics.

        Args:
            names: Existing topics.
            only_changed: Whether configs at their defaults are left out.
            partly: Whether topics are left out that do not exist, or whose configs the principal may not see.
        """
        return {
            name: {key: each.value for key, each in values.items() if each.is_changed or not only_changed}
            for name, values in self.config_values(names, partly).items()
        }

    def config_values(self, names: Collection[str], partly: bool = False) -> dict[str, dict[str, ConfigValue]]:
        """Fetches the configs of existing topics, also those at their defaults, with one call for all of them.

        Args:
            names: Existing topics.
            partly: As for `topic_configs`.
        """
        instead = dict.fromkeys(_WITHOUT_DESCRIPTION) if partly else {}
        asked = self._asked_for_configs(names)
        return {name: found for name, future in asked.items() if (found := self._configs(future, instead)) is not None}

    def seen_configs(self, names: Collection[str]) -> SeenConfigs:
        """The configs of those of some topics that exist, and which of them the principal may not see."""
        seen = SeenConfigs({}, set())
        for name, future in self._asked_for_configs(names).items():
            found = self._configs(future, _WITHOUT_DESCRIPTION)
            if found is _HIDDEN:
                seen.hidden.add(name)
            elif found is not None:
                seen.configs[name] = found
        return seen

    def _asked_for_configs(self, names: Collection[str]) -> dict[str, Future[Any]]:
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        asked = self.admin.describe_configs(resources, request_timeout=self.timeout)
        return {resource.name: future for resource, future in asked.items()}

    def _configs(self, asked: Future[Any], instead: Mapping[int, Any]) -> Any:
        """The configs of a topic that have a value, by name; or what stands instead of an error."""
        found = self.answer(asked, instead)
        if not isinstance(found, dict):
            return found
        changed = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            entry.name: ConfigValue(entry.value, entry.source == changed)
            for entry in found.values()
            if entry.value is not None
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

    def partitions_of(self, names: Collection[str]) -> list[TopicPartition]:
        """All partitions of those topics that exist."""
        return [
            TopicPartition(topic.name, p) for topic in self.describe(names).values() for p in range(topic.partitions)
        ]

    def _await(self, future: Future[Any], missing: int | None = None) -> Any:
        return self.answer(future, {} if missing is None else {missing: None})
