"""The permissions as commands for Kafka's own `kafka-acls.sh`, or as data for other tools."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from k2k_assets.kafka.connection import Role
from k2k_assets.permissions.names import ALL, NamePattern
from k2k_assets.permissions.required import Operation, Permission
from k2k_assets.permissions.subjects import Resource

_OPTIONS: dict[Resource, str] = {"topic": "--topic", "group": "--group", "transactional id": "--transactional-id"}
_WRITES: frozenset[tuple[Resource, Operation]] = frozenset(
    {("topic", "Write"), ("topic", "Create"), ("topic", "Alter"), ("transactional id", "Write"), ("group", "Read")}
)
_WIDE = "NOTE: the selection has no literal beginning, so this is every {resource} of the cluster"


@dataclass(frozen=True, slots=True)
class Administration:
    """How an administrator of a cluster grants the permissions.

    Attributes:
        servers: Bootstrap address.
        principal: The principal that gets the permissions.
        command_config: File with the administrator's client properties, for a cluster that authenticates clients.
    """

    servers: str
    principal: str
    command_config: str | None = None


def commands(permissions: Iterable[Permission], clusters: Mapping[Role, Administration]) -> Iterator[str]:
    """Yields lines for a shell: commands with comments on their purpose, one cluster after the other.

    Args:
        permissions: Permissions from `required`.
        clusters: How the administrator of each cluster grants them.
    """
    by_cluster = sorted(permissions, key=lambda each: each.cluster)
    for role, of_cluster in groupby(by_cluster, lambda each: each.cluster):
        granted = list(of_cluster)
        writes = any((each.resource, each.operation) in _WRITES for each in granted)
        yield f"# The {role} cluster{'' if writes else ', which is only read'}."
        for names, alike in _together(granted):
            yield from _command(names, alike, clusters[role])
        yield ""


def optional(at: Administration) -> Iterator[str]:
    """Yields a permission that replication can use on the target and does not need, as comments.

    Args:
        at: How the target's administrator grants it.
    """
    yield "# Optional, on the target cluster: a transaction.timeout.ms that its brokers do not take is refused before"
    yield "# anything is created; without it, by the first transaction."
    command = shlex.join([*_adding(at), "--operation", "DescribeConfigs", "--cluster"])
    yield from (f"# {line}" for line in command.split("\n"))  # a name may contain a line break: comment out each line


def _adding(at: Administration) -> list[str]:
    words = ["kafka-acls.sh", "--bootstrap-server", at.servers]
    if at.command_config:
        words += ["--command-config", at.command_config]
    return [*words, "--add", "--allow-principal", at.principal]


def _together(permissions: Iterable[Permission]) -> Iterator[tuple[list[NamePattern], list[Permission]]]:
    """Groups names of one kind that need the same permissions; yields the names and the permissions of one of them."""
    by_name: dict[tuple[Resource, NamePattern], list[Permission]] = {}
    for each in permissions:
        by_name.setdefault((each.resource, each.pattern), []).append(each)
    alike: dict[object, tuple[list[NamePattern], list[Permission]]] = {}
    for (resource, pattern), needed in by_name.items():
        same = (resource, pattern.prefixed, pattern == ALL, *((each.operation, each.why) for each in needed))
        alike.setdefault(same, ([], needed))[0].append(pattern)
    yield from alike.values()


def _command(names: Sequence[NamePattern], permissions: Sequence[Permission], at: Administration) -> Iterator[str]:
    first = permissions[0]
    yield f"# {first.subject}"
    yield from (f"#   {each.operation}: {each.why}" for each in permissions)
    if ALL in names:
        yield f"#   {_WIDE.format(resource=first.resource)}"
    words = _adding(at)
    for each in permissions:
        words += ["--operation", each.operation]
    for pattern in names:
        words += [_OPTIONS[first.resource], pattern.name]
    if names[0].prefixed:
        words += ["--resource-pattern-type", "prefixed"]
    yield shlex.join(words)


def rows(permissions: Iterable[Permission], clusters: Mapping[Role, Administration]) -> list[dict[str, str]]:
    """The permissions as data, one row for each ACL, with the terms of Kafka's admin API."""
    return [
        {
            "cluster": each.cluster,
            "bootstrapServers": clusters[each.cluster].servers,
            "principal": clusters[each.cluster].principal,
            "host": "*",
            "permissionType": "ALLOW",
            "resourceType": each.resource.upper().replace(" ", "_"),
            "patternType": "PREFIXED" if each.pattern.prefixed else "LITERAL",
            "name": each.pattern.name,
            "operation": _in_capitals(each.operation),
            "why": each.why,
        }
        for each in permissions
    ]


def _in_capitals(operation: str) -> str:
    """Turns `DescribeConfigs` into `DESCRIBE_CONFIGS`."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).lstrip("_").upper()
