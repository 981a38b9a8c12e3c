"""Changes configs of topics."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster


def alter_topic_configs(cluster: Cluster, changes: Mapping[str, Mapping[str, str | None]]) -> None:
    """Sets configs of topics, and leaves their other configs as they are.

    Args:
        cluster: The cluster of the topics.
        changes: By topic the new values by name; None takes a config off, so that the brokers' default counts.

    Raises:
        Refused: The cluster refuses those of some topics; the others are changed.
        ClusterUnreachable: The cluster does not answer.
    """
    if not changes:
        return
    resources = [
        ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[_entry(*each) for each in configs.items()])
        for topic, configs in changes.items()
    ]
    asked = cluster.admin.incremental_alter_configs(resources, request_timeout=cluster.timeout)
    refusals = []
    for resource, future in asked.items():
        try:
            cluster.answer(future, {})
        except Refused as refusal:
            refusals.append(f"'{resource.name}': {refusal}")
    if refusals:
        raise Refused(f"configs were not changed of the topics {'; '.join(refusals)}. Those of all others were")


def _entry(name: str, value: str | None) -> ConfigEntry:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    return ConfigEntry(name, value, incremental_operation=operation)
