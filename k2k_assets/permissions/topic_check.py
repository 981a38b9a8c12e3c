"""Finds missing permissions on topics and transactional ids, all at once and before anything is created.

It asks Kafka for the authorized operations on existing topics. For a topic that does not exist yet, Kafka tells only
whether it may be created; the rest is checked when it exists, before the first record. On a cluster that forbids this
client nothing, the check costs one round trip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.connection import Role
from k2k_assets.permissions.granted import (
    Granted,
    Wanted,
    is_restricted,
    may_use_transactional_id,
    not_creatable,
    on_topics,
)
from k2k_assets.permissions.missing import Missing, refuse
from k2k_assets.permissions.names import name_in, patterns_of
from k2k_assets.permissions.required import Operation, Program, needs
from k2k_assets.permissions.subjects import Subject, patterns, resource_of
from k2k_assets.pipeline import Pipeline

_ID_SECONDS = 15.0
_READING: tuple[Operation, ...] = ("Read",)


class TopicCheck:
    """Checks the permissions of a program.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        program: The program.
        copied: The source topics that it reads.
        targets: The target topics that it writes to.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: Cluster,
        target: Cluster,
        program: Program,
        copied: Iterable[str] = (),
        targets: Iterable[str] = (),
    ) -> None:
        self._pipeline = pipeline
        self._source, self._target = source, target
        self._names: dict[Subject, Collection[str]] = {"copied topics": set(copied), "target topics": set(targets)}
        self._operations: dict[tuple[Role, Subject], list[Operation]] = defaultdict(list)
        for need in needs(pipeline, program):
            if need.is_demanded:
                self._operations[need.cluster, need.subject].append(need.operation)
        self._absent: list[str] = []

    def before_creation(self) -> list[Missing]:
        """Missing permissions, as far as Kafka tells them before anything is created.

        Raises:
            ClusterUnreachable: A cluster does not answer.
            Refused: A cluster refuses the request.
        """
        restricted = is_restricted(self._target)
        missing = self.existing()
        if restricted():
            missing += [*self._creations(), *self._transactional_ids()]
        else:
            self._absent = []
        return missing

    def existing(self) -> list[Missing]:
        """Missing permissions on topics that exist, or are hidden from this client; raises as `before_creation`."""
        source = on_topics(self._source, self._wanted("source"))
        target = on_topics(self._target, self._wanted("target"))
        of_target = target()
        self._absent = of_target.absent
        return [*self._on(self._source, source()), *self._on(self._target, of_target)]

    def ensure_existing(self) -> None:
        """Makes sure that no permission on existing topics is missing.

        Raises:
            ClusterUnreachable: A cluster does not answer.
            Refused: A permission is missing, or a cluster refuses the request.
        """
        refuse(self.existing())

    def after_creation(self) -> list[Missing]:
        """Missing permissions on target topics that were created since; raises as `before_creation`."""
        wanted = {name: operations for name, operations in self._wanted("target").items() if name in self._absent}
        return list(self._on(self._target, on_topics(self._target, wanted)()))

    def _wanted(self, role: Role, creation: bool = False) -> Wanted:
        """Operations by topic: either `Create` or all others."""
        wanted: dict[str, list[Operation]] = defaultdict(list)
        for (cluster, subject), operations in self._operations.items():
            if cluster == role and resource_of(subject) == "topic":
                for name in self._topics(subject):
                    wanted[name] += (each for each in operations if (each == "Create") == creation)
        return {name: list(dict.fromkeys(operations)) for name, operations in wanted.items() if operations}

    def _topics(self, subject: Subject) -> Collection[str]:
        known = self._names.get(subject)
        return [pattern.name for pattern in patterns(self._pipeline, subject)] if known is None else known

    def _on(self, cluster: Cluster, granted: Granted) -> Iterator[Missing]:
        for name, operations in sorted(granted.lacking.items()):
            for operation in operations:
                yield Missing.on(cluster, self._pipeline, operation, "topic", f"'{name}'")

    def _creations(self) -> Iterator[Missing]:
        wanted = self._wanted("target", creation=True)
        for name in not_creatable(self._target, [name for name in self._absent if name in wanted]):
            yield Missing.on(self._target, self._pipeline, "Create", "topic", f"'{name}'")

    def _transactional_ids(self) -> Iterator[Missing]:
        for _, subject in self._operations:
            if resource_of(subject) == "transactional id":
                for pattern in patterns(self._pipeline, subject):
                    if not may_use_transactional_id(self._pipeline, name_in(pattern), _ID_SECONDS):
                        yield Missing.on(self._target, self._pipeline, "Write", "transactional id", str(pattern))


def hidden_topics(pipeline: Pipeline, source: Cluster, names: Sequence[str] | None = None) -> list[Missing]:
    """Missing permissions for source topics that are hidden from this client.

    Args:
        pipeline: Selects topics.
        source: The source cluster.
        names: Topics that the source does not list; None: it lists no topic that the pipeline's pattern selects.

    Raises:
        ClusterUnreachable: The source does not answer.
        Refused: The source refuses the request.
    """
    wanted = patterns(pipeline, "copied topics") if names is None else patterns_of(names)
    probes = {name_in(pattern): pattern for pattern in wanted}
    lacking = on_topics(source, dict.fromkeys(probes, _READING))().lacking
    return [Missing.on(source, pipeline, "Read", "topic", str(probes[name])) for name in lacking]
