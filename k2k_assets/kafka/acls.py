"""ACLs on topics: read, and created."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple, cast

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from k2k_assets.kafka.cluster import Cluster

AclOperationName = Literal[
    "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"
]
"""Operations on topics; the client library has further ones, which are for other resources."""


class TopicAcl(NamedTuple):
    """An ACL on topics.

    Attributes:
        topic: Name of the topic, or the beginning of names; `*` without `is_prefix` is every topic.
        principal: Whom it is about, such as `User:billing`; `User:*` is everybody.
        operation: What it is about.
        host: From where; `*` is anywhere.
        is_denial: Whether it denies that, and does not allow it.
        is_prefix: Whether it is on all topics whose names begin so.
    """

    topic: str
    principal: str
    operation: AclOperationName
    host: str = "*"
    is_denial: bool = False
    is_prefix: bool = False

    def __str__(self) -> str:
        may = "may not" if self.is_denial else "may"
        where = "" if self.host == "*" else f" from {self.host}"
        return f"{self.topic}{'...' * self.is_prefix}: {self.principal} {may} {self.operation}{where}"


def acl_filter(kind: ResourceType, principal: str | None = None) -> AclBindingFilter:
    """All ACLs on resources of a kind.

    Args:
        kind: The kind.
        principal: Only those of this principal; None: of all.
    """
    # None is any, though its type says str.
    return AclBindingFilter(
        kind,
        None,  # type: ignore[arg-type]
        ResourcePatternType.ANY,
        principal,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def topic_acls(cluster: Cluster) -> list[TopicAcl]:
    """All ACLs on topics of a cluster, with one request.

    A cluster without an authorizer has none; the client (librdkafka 2.16) hides that it said so.

    Raises:
        NotAllowed: The principal may not see them.
        ClusterUnreachable: The cluster does not answer.
    """
    asked = cluster.admin.describe_acls(acl_filter(ResourceType.TOPIC), request_timeout=cluster.timeout)
    return [
        TopicAcl(
            acl.name,
            acl.principal,
            cast(AclOperationName, acl.operation.name),
            acl.host,
            acl.permission_type == AclPermissionType.DENY,
            acl.resource_pattern_type == ResourcePatternType.PREFIXED,
        )
        for acl in cluster.answer(asked, {})
    ]


def create_topic_acls(cluster: Cluster, acls: Collection[TopicAcl]) -> None:
    """Creates ACLs with one request; those that exist already are fine.

    Raises:
        Refused: The cluster has no authorizer, or does not create one of them.
        NotAllowed: The principal may not create them.
        ClusterUnreachable: The cluster does not answer.
    """
    if not acls:
        return
    wanted = [
        AclBinding(
            ResourceType.TOPIC,
            acl.topic,
            ResourcePatternType.PREFIXED if acl.is_prefix else ResourcePatternType.LITERAL,
            acl.principal,
            acl.host,
            AclOperation[acl.operation],
            AclPermissionType.DENY if acl.is_denial else AclPermissionType.ALLOW,
        )
        for acl in acls
    ]
    for future in cluster.admin.create_acls(wanted, request_timeout=cluster.timeout).values():
        cluster.answer(future, {})
