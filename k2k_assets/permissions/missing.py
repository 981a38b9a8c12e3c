"""A missing permission, and its message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k2k_assets.core.errors import Refused
from k2k_assets.core.words import ACLS_HINT
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.principals import who
from k2k_assets.permissions.required import Operation
from k2k_assets.permissions.subjects import Resource
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.clients.client_properties import ClientKind


@dataclass(frozen=True, slots=True)
class Missing:
    """A permission that is not granted.

    Attributes:
        cluster: Text that names the cluster.
        principal: Text that names the principal.
        operation: The missing operation.
        resource: Kafka's kind of resource.
        name: Text that names the resource.
    """

    cluster: str
    principal: str
    operation: Operation
    resource: Resource
    name: str

    @classmethod
    def on(cls, cluster: Cluster, pipeline: Pipeline, operation: Operation, resource: Resource, name: str) -> Missing:
        """Makes a missing permission of a pipeline on one of its clusters."""
        kind: ClientKind = "producer" if resource == "transactional id" else "admin"
        return cls(str(cluster), who(pipeline.client_properties(cluster.role, kind)), operation, resource, name)

    def __str__(self) -> str:
        return f"the {self.cluster} does not allow {self.principal} to {self.operation} the {self.resource} {self.name}"


def refuse(missing: Sequence[Missing]) -> None:
    """Stops a program that lacks permissions.

    Raises:
        Refused: Permissions are missing; the error names all of them.
    """
    if missing:
        count = "a permission is missing" if len(missing) == 1 else f"{len(missing)} permissions are missing"
        lines = "".join(f"\n  {each}" for each in missing)
        raise Refused(f"{count}; nothing was copied, committed or set:{lines}\n{ACLS_HINT}")
