"""Users of a secured broker, and what they may do: made by an admin client, seen by the broker when this returns."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.acls import acl_filter

_SECONDS = 15.0
_ITERATIONS = 4096
_RIGHTS: dict[str, list[tuple[ResourceType, str, AclOperation]]] = {
    "source": [
        (ResourceType.TOPIC, "*", AclOperation.READ),
        (ResourceType.TOPIC, "*", AclOperation.DESCRIBE_CONFIGS),
        (ResourceType.GROUP, "*", AclOperation.DESCRIBE),
    ],
    "target": [
        *(
            (ResourceType.TOPIC, "*", operation)
            for operation in (
                AclOperation.READ,
                AclOperation.WRITE,
                AclOperation.CREATE,
                AclOperation.ALTER,
                AclOperation.DESCRIBE_CONFIGS,
            )
        ),
        (ResourceType.GROUP, "*", AclOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.WRITE),
    ],
}


def set_password(admin: AdminClient, user: str, password: str) -> None:
    """Makes a SCRAM user, or gives an existing one another password.

    Args:
        admin: Of a user who may do it.
        user: The name.
        password: What `sasl.password` has to be.
    """
    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    wanted = UserScramCredentialUpsertion(user, kind, password.encode())
    _all(admin.alter_user_scram_credentials([wanted]).values())
    wait_until(lambda: _is_known(admin, user), _SECONDS, f"the user {user} to be known to the broker")


def allow(admin: AdminClient, acls: Iterable[AclBinding]) -> None:
    """Adds ACLs, and returns when the broker goes by them."""
    wanted = list(acls)
    _all(admin.create_acls(wanted).values())
    wait_until(lambda: set(wanted) <= acls_of(admin), _SECONDS, "the new ACLs to be known to the broker")


def disallow(admin: AdminClient, acls: Iterable[AclBinding]) -> None:
    """Takes ACLs away, and returns when the broker no longer goes by them."""
    unwanted = list(acls)
    _all(admin.delete_acls([_exactly(acl) for acl in unwanted]).values())
    wait_until(lambda: not set(unwanted) & acls_of(admin), _SECONDS, "the removed ACLs to be forgotten by the broker")


def acls_of(admin: AdminClient, user: str | None = None) -> set[AclBinding]:
    """The ACLs that the broker goes by, of one user or of all."""
    principal = None if user is None else f"User:{user}"
    asked = admin.describe_acls(acl_filter(ResourceType.ANY, principal), request_timeout=_SECONDS)
    return set(asked.result(_SECONDS))


def binding(
    user: str,
    resource: ResourceType,
    name: str,
    operation: AclOperation,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    """The ACL that lets a user do something from anywhere."""
    return AclBinding(resource, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def _exactly(acl: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type
    )


def _is_known(admin: AdminClient, user: str) -> bool:
    try:
        asked = admin.describe_user_scram_credentials([user], request_timeout=_SECONDS)
        found = cast("dict[str, Future[Any]]", asked)[user].result(_SECONDS)
    except KafkaException:
        return False  # "no such user" is an error there
    return bool(found.scram_credential_infos)


def _all(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.result(_SECONDS)


REPLICATOR = "k2k"
"""The user that the sandbox makes on both secured clusters, for the pipeline."""


def set_up_replicator(role: str, admin: AdminClient, password: str) -> None:
    """Makes the replicator's user: it may only read on the source, and copy on the target.

    Args:
        role: "source" or "target".
        admin: Of the cluster.
        password: The user's.
    """
    set_password(admin, REPLICATOR, password)
    allow(admin, [binding(REPLICATOR, *right) for right in _RIGHTS[role]])
