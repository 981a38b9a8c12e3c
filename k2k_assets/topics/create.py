"""Creates topics and waits until they can be used, for target topics and control topics alike."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic

from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.core.errors import ClusterUnreachable, K2KError, Refusals, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.kafka import clients
from k2k_assets.kafka.cluster import Cluster, TopicDescription

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline

_log = logging.getLogger("k2k.topics")

# How often a topic is looked for while it is awaited: most are there within 100 ms.
_POLL_SECONDS = 0.1
_ABOUT_CONFIG = (KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION)


@dataclass(frozen=True)
class WantedTopic:
    """A topic to create.

    Attributes:
        name: Name of the topic.
        partitions: Number of partitions; `None` leaves it to the broker.
        replication: Replication factor; `None` leaves it to the broker.
        config: Topic configs.
    """

    name: str
    partitions: int | None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def create_topics(
    pipeline: Pipeline, cluster: Cluster, wanted: Sequence[WantedTopic]
) -> tuple[list[str], dict[str, TopicDescription]]:
    """Creates topics and waits until the cluster shows and serves them all.

    A topic that another client created in the meantime is fine.

    Args:
        pipeline: Says how long to wait (`configuration.autoControlTopicCreation...`).
        cluster: The cluster to create them on.
        wanted: The topics; may be empty.

    Returns:
        The names that this call created, and the descriptions of all wanted topics.

    Raises:
        Refused: The cluster refuses to create a topic, or does not serve it in time.
        ClusterUnreachable: The cluster does not answer.
    """
    if not wanted:
        return [], {}
    created = _create(cluster, wanted, validate_only=False)
    for topic in created:
        count = plural(topic.partitions, "partition") if topic.partitions else "the default number of partitions"
        configs = ", ".join(f"{k}={v}" for k, v in sorted(topic.config.items())) or "broker defaults"
        _log.info("created topic '%s' on the %s: %s, %s", topic.name, cluster, count, configs)
    seen = _await_ready(pipeline, cluster, {topic.name: 1 for topic in wanted})
    return [topic.name for topic in created], seen


def grow_topics(pipeline: Pipeline, cluster: Cluster, wanted: Mapping[str, int]) -> None:
    """Gives topics more partitions, and waits until the cluster shows and serves them.

    Args:
        pipeline: Says how long to wait.
        cluster: The cluster of the topics.
        wanted: Number of partitions that each topic needs. Another client may have added them meanwhile.

    Raises:
        Refused: The cluster refuses to add partitions, or does not serve them in time.
        ClusterUnreachable: The cluster does not answer.
    """
    if not wanted:
        return
    asked = cluster.admin.create_partitions(
        [NewPartitions(name, count) for name, count in wanted.items()],
        request_timeout=cluster.timeout,
        operation_timeout=cluster.timeout,
    )
    refusals = Refusals()
    for name, future in asked.items():
        topic = WantedTopic(name, wanted[name])
        with refusals.collected():
            if _is_done(future, topic, cluster, KafkaError.INVALID_PARTITIONS, "add partitions to"):
                count = plural(wanted[name], "partition")
                _log.warning("topic '%s' on the %s has %s now, like its source", name, cluster, count)
    refusals.raise_all()
    _await_ready(pipeline, cluster, wanted)


def rehearse_creation(cluster: Cluster, wanted: Sequence[WantedTopic]) -> None:
    """Asks the cluster whether it would create the topics (Kafka's `validateOnly`); creates none.

    Raises:
        Refused: The cluster would refuse a topic.
        ClusterUnreachable: The cluster does not answer.
    """
    if wanted:
        _create(cluster, wanted, validate_only=True)


def _create(cluster: Cluster, wanted: Sequence[WantedTopic], validate_only: bool) -> list[WantedTopic]:
    """Creates all topics in one request; returns those that did not exist before.

    Raises:
        Refused: The cluster refuses some; all others were created.
    """
    new = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions or -1,
            replication_factor=topic.replication or -1,
            config=dict(topic.config),
        )
        for topic in wanted
    ]
    asked = cluster.admin.create_topics(
        new, request_timeout=cluster.timeout, operation_timeout=cluster.timeout, validate_only=validate_only
    )
    created, refusals = [], Refusals()
    for topic in wanted:
        with refusals.collected():
            if _is_done(asked[topic.name], topic, cluster, KafkaError.TOPIC_ALREADY_EXISTS, "create"):
                created.append(topic)
    refusals.raise_all()
    return created


def _no_answer(cluster: Cluster, why: str) -> K2KError:
    return clients.unreachable(cluster.role, {"bootstrap.servers": cluster.servers}, why)


def _is_done(future: Future[Any], topic: WantedTopic, cluster: Cluster, already: int, what: str) -> bool:
    """Whether the request succeeded; false if its error code is `already`: another client was faster."""
    deadline = Deadline(cluster.timeout + 5)
    try:
        future.result(timeout=deadline.remaining())
    except TimeoutError:
        raise _no_answer(cluster, "no answer in time") from None
    except KafkaException as exception:
        error = clients.error_of(exception)
        if error.code() == already:
            return False
        raise _refusal(error, topic, cluster, what) from None
    return True


def _refusal(error: KafkaError, topic: WantedTopic, cluster: Cluster, what: str) -> K2KError:
    if clients.is_unreachable(error):
        return _no_answer(cluster, error.str())
    text = f"the {cluster} did not {what} the topic '{topic.name}': {error.str()} ({error.name()})."
    if error.code() in _ABOUT_CONFIG and topic.config:
        named = ", ".join(f"{name}={topic.config[name]}" for name in _culprits(error, topic))
        return Refused(f"{text} Refused: {named}. Create the topic by hand with configs that this cluster takes.")
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED or "AUTHORIZATION" in error.name():
        return Refused(f"{text} Allow the principal to create topics, or create it by hand.")
    return Refused(f"{text} Create it by hand, or correct what the cluster objects to.")


def _culprits(error: KafkaError, topic: WantedTopic) -> list[str]:
    """The configs that the broker's error names; all configs if it names none."""
    words = set(re.findall(r"[a-z][a-z0-9._-]*[a-z0-9]", error.str()))
    return sorted(words & topic.config.keys()) or sorted(topic.config)


def _await_ready(pipeline: Pipeline, cluster: Cluster, wanted: Mapping[str, int]) -> dict[str, TopicDescription]:
    """Waits until the cluster shows the topics with enough partitions, and the leader of every partition answers.

    A broker shows a new topic a moment before it knows that it leads it; until then it refuses to give its offsets.
    """
    delay = pipeline.configuration.auto_control_topic_creation_check_delay.total_seconds()
    seconds = delay * pipeline.configuration.auto_control_topic_creation_max_attempts
    seen: dict[str, TopicDescription] = {}
    refusals: list[K2KError] = []

    def unseen() -> list[str]:
        return [name for name, least in wanted.items() if name not in seen or seen[name].partitions < least]

    def ready() -> bool:
        seen.update(cluster.describe(list(wanted)))
        if unseen():
            return False
        try:
            cluster.offsets([TopicPartition(t.name, p) for t in seen.values() for p in range(t.partitions)], "latest")
        except (Refused, ClusterUnreachable) as refusal:
            refusals[:] = [refusal]
            return False
        return True

    try:
        wait_until(ready, seconds, "new topics", interval=min(delay, _POLL_SECONDS))
    except TimeoutError:
        missing = ", ".join(unseen())
        why = f"does not show all of {missing}" if missing else f"does not serve them: {refusals[-1]}"
        raise Refused(
            f"the {cluster} accepted the new topics or partitions but {why} after {seconds:g} s. Look at the brokers' "
            "logs, or wait longer: 'configuration.autoControlTopicCreationMaxAttempts' and "
            "'autoControlTopicCreationCheckDelay'."
        ) from None
    return seen
