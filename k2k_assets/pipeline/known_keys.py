"""K2K keys that are no part of the models: another program's, of no effect here, or not built yet.

They are taken out of the document before it is validated; those that are not built yet leave a problem behind.
"""

from __future__ import annotations

from collections.abc import Iterator

from k2k_assets.pipeline.problems import Path

IGNORED: dict[Path, str] = {
    ("license",): "everything is free here",
    ("metrics",): "telemetry, which only starts when it is asked for",
    ("topicCreation", "control", "metrics"): "telemetry, which only starts when it is asked for",
}
"""Accepted without a look at the value, and why."""

NOT_YET: tuple[Path, ...] = (
    ("tracing",),
    ("schemaMapping",),
    ("bidirectional",),
    ("source", "registry"),
    ("target", "registry"),
    ("source", "kafka", "registry"),
    ("target", "kafka", "registry"),
    ("target", "kafka", "topicPropsExclusionList"),
    ("topicCreation", "replication"),
)
"""Keys whose feature is not built yet."""

NOT_YET_FLAGS: tuple[Path, ...] = (
    ("features", "tracingHeaders"),
    ("features", "schemaMapping"),
    ("features", "bidirectionalReplication"),
)
"""Flags whose feature is not built yet: `disabled` is fine."""

OLD_SPELLINGS: dict[Path, str] = {
    ("coordination", "kafka"): "coordination.commit and coordination.assignment",
    ("source", "kafka", "connection"): 'source.kafka.common."bootstrap.servers"',
    ("target", "kafka", "connection"): 'target.kafka.common."bootstrap.servers"',
    ("features", "optimizeCommitPartition"): "features.optimizeOffsetCommitPartition",
    ("features", "offsetCommitOptimizePartition"): "features.optimizeOffsetCommitPartition",
}
"""Spellings of K2K 0.1, and today's."""


def take_out(document: dict[str, object]) -> Iterator[tuple[Path, str]]:
    """Remove all these keys from a document in place; yields a path and a message for each that is refused."""
    for path in IGNORED:
        _pop(document, path)
    for path in NOT_YET:
        if _pop(document, path) is not None:
            yield path, "not supported yet"
    for path in NOT_YET_FLAGS:
        value = _pop(document, path)
        if value is not None and not _is_disabled(value):
            yield path, "not supported yet; only disabled is accepted"
    for path, today in OLD_SPELLINGS.items():
        if _pop(document, path) is not None:
            yield path, f"a spelling of K2K 0.1; write {today}"


def _is_disabled(value: object) -> bool:
    if isinstance(value, dict):
        return all(item == "disabled" for item in value.values())
    return value == "disabled"


def _pop(document: dict[str, object], path: Path) -> object:
    section: object = document
    for key in path[:-1]:
        if not isinstance(section, dict):
            return None
        section = section.get(key)
    return section.pop(path[-1], None) if isinstance(section, dict) else None


def sibling_keys(section: Path) -> set[str]:
    """The names among these keys that stand directly in a section, for suggestions."""
    paths = (*IGNORED, *NOT_YET, *NOT_YET_FLAGS)
    return {str(path[-1]) for path in paths if path[:-1] == section}
