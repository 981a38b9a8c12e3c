"""Finds missing permissions on consumer groups before the first group is read.

Kafka does not list groups that the principal may not describe: without this check, a mapper that may see no group would
seem to have nothing to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.group_reader import list_states
from k2k_assets.permissions.granted import is_restricted, on_groups
from k2k_assets.permissions.missing import Missing
from k2k_assets.permissions.names import NamePattern, name_in, patterns_of
from k2k_assets.permissions.required import Operation, Program, needs
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.group_selection import GroupSelection


def missing_on_groups(pipeline: Pipeline, source: Cluster, target: Cluster, program: Program) -> list[Missing]:
    """The permissions that a program lacks on the selected consumer groups.

    If a regular expression selects groups, not all of them need permissions: those that can be seen on the source
    count, as long as there are any.

    Raises:
        ClusterUnreachable: A cluster does not answer.
        Refused: A cluster refuses the request.
    """
    return [missing for cluster in (source, target) for missing in _on(cluster, pipeline, source, program)]


def _on(cluster: Cluster, pipeline: Pipeline, source: Cluster, program: Program) -> Iterator[Missing]:
    operations = [
        need.operation
        for need in needs(pipeline, program)
        if (need.cluster, need.subject) == (cluster.role, "consumer groups")
    ]
    if not operations or not is_restricted(cluster)():
        return
    selected = pipeline.groups.consumer_groups
    denied = _denied(cluster, patterns_of(selected), operations)
    if denied and isinstance(selected, str):
        visible = [group for group in list_states(source, partial=True) if GroupSelection(selected).matches(group)]
        denied = _denied(cluster, map(NamePattern, visible), operations) if visible else denied
    for pattern, operation in denied:
        yield Missing.on(cluster, pipeline, operation, "group", str(pattern))


def _denied(
    cluster: Cluster, patterns: Iterable[NamePattern], operations: Collection[Operation]
) -> list[tuple[NamePattern, Operation]]:
    probes = {name_in(pattern): pattern for pattern in patterns}
    granted = on_groups(cluster, dict.fromkeys(probes, operations))
    return [(probes[name], operation) for name, lacking in granted.lacking.items() for operation in lacking]
