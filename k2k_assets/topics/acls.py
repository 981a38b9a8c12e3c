"""Who may read the source topics, and may not read their copies yet. Pure.

As in MirrorMaker 2 only rights to read are copied: whoever writes to the source has no business on the copy. `ALL`
becomes `READ`. Rights by prefix, or on all topics, become rights on the copy alone, so that nobody gets a right on
topics that are no copies. What is denied on the source is denied on the copy, else a right of everybody would let in
whom the source shuts out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from k2k_assets.kafka.acls import AclOperationName, TopicAcl

_EVERYBODY, _ANYWHERE, _ALL_TOPICS = "User:*", "*", "*"
_READING: Mapping[AclOperationName, AclOperationName] = {
    "READ": "READ",
    "ALL": "READ",
    "DESCRIBE": "DESCRIBE",
    "DESCRIBE_CONFIGS": "DESCRIBE_CONFIGS",
}
# What includes an operation where it is allowed. Denied, only `ALL` includes another one.
_INCLUDED_IN: Mapping[AclOperationName, tuple[AclOperationName, ...]] = {
    "READ": (),
    "DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",),
}


def missing_acls(
    routes: Mapping[str, Collection[str]],
    on_source: Iterable[TopicAcl],
    on_target: Iterable[TopicAcl],
    ours: Collection[str] = (),
) -> list[TopicAcl]:
    """The ACLs that target topics lack, sorted.

    Args:
        routes: Target topic to its source topics.
        on_source: ACLs on topics of the source.
        on_target: ACLs on topics of the target.
        ours: Principals of the pipeline itself, which reads the source only to copy it.
    """
    found: set[TopicAcl] = set()
    source, target = _ByTopic(on_source), _ByTopic(on_target)
    for topic, sources in routes.items():
        wanted = {
            TopicAcl(topic, acl.principal, _READING[acl.operation], acl.host, acl.is_denial)
            for each in sources
            for acl in source.of(each)
            if acl.operation in _READING and (acl.principal not in ours or acl.is_denial)
        }
        there = [*target.of(topic), *wanted]
        found |= {acl for acl in wanted if not any(_covers(other, acl) for other in there if other is not acl)}
    return sorted(found)


def _covers(other: TopicAcl, acl: TopicAcl) -> bool:
    including = {acl.operation, "ALL", *(() if acl.is_denial else _INCLUDED_IN[acl.operation])}
    return (
        other.is_denial == acl.is_denial
        and other.operation in including
        and other.principal in (acl.principal, _EVERYBODY)
        and other.host in (acl.host, _ANYWHERE)
    )


class _ByTopic:
    """ACLs by the topics that they are on: of a thousand topics each has few."""

    def __init__(self, acls: Iterable[TopicAcl]) -> None:
        self._named: dict[str, list[TopicAcl]] = {}
        self._prefixed: list[TopicAcl] = []
        for acl in acls:
            (self._prefixed if acl.is_prefix else self._named.setdefault(acl.topic, [])).append(acl)

    def of(self, topic: str) -> Iterator[TopicAcl]:
        yield from self._named.get(topic, ())
        yield from self._named.get(_ALL_TOPICS, ())
        yield from (acl for acl in self._prefixed if topic.startswith(acl.topic))
