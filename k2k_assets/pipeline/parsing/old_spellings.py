"""Replaces spellings of older releases of K2K by today's, with warnings; so files of K2K 0.1 work.

`modernized` works on one file, before files are merged, so that each file may use its own spellings. Only what K2K 0.1
means by the connection settings of a client holds for all files, if one of them is of that release. A `Change` says
from where to where a key moves, and `k2k migrate` makes the same changes in the file's text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from k2k_assets.pipeline.parsing.document import Node
from k2k_assets.pipeline.parsing.problems import Path, Problem, describe, format_path

_COMMIT_TOPIC_OPTIMIZED: Path = ("features", "optimizeOffsetCommitPartition")
_GROUP: Path = ("source", "kafka", "consumer", "group.id")

MOVED: dict[Path, Path] = {
    ("coordination", "kafka", "commit"): ("coordination", "commit"),
    ("coordination", "kafka", "assignment"): ("coordination", "assignment"),
    ("coordination", "kafka", "assignement"): ("coordination", "assignment"),
    ("coordination", "kafka", "consumer"): ("target", "kafka", "consumer"),
    ("source", "kafka", "connection", "servers"): ("source", "kafka", "common", "bootstrap.servers"),
    ("target", "kafka", "connection", "servers"): ("target", "kafka", "common", "bootstrap.servers"),
    ("source", "kafka", "registry"): ("source", "registry"),
    ("target", "kafka", "registry"): ("target", "registry"),
    ("source", "registry", "url"): ("source", "registry", "config", "schema.registry.url"),
    ("target", "registry", "url"): ("target", "registry", "config", "schema.registry.url"),
    ("source", "registry", "supportedTypes"): ("schemaMapping", "supportedTypes"),
    ("target", "registry", "supportedTypes"): ("schemaMapping", "supportedTypes"),
    ("features", "optimizeCommitPartition"): _COMMIT_TOPIC_OPTIMIZED,
    ("features", "offsetCommitOptimizePartition"): _COMMIT_TOPIC_OPTIMIZED,
}
"""Old and new path of each key; a later line may move a key again."""

COMMIT_GROUP: Path = ("coordination", "commit", "group")
"""The name of the progress in K2K 0.1; it is the source consumer's `group.id` today."""

WITHOUT_EFFECT: dict[Path, str] = {
    ("coordination", "kafka", "charset"): "control records are UTF-8",
    ("coordination", "kafka", "connection"): "the control topics are on the target",
}
"""Keys of K2K 0.1 that have no counterpart today."""

_WRAPPERS: tuple[Path, ...] = (
    ("coordination", "kafka"),
    ("source", "kafka", "connection"),
    ("target", "kafka", "connection"),
)
"""Sections that are empty after their keys have moved."""

_WHO_CONNECTS = ("security.", "ssl.", "sasl.")
_CLIENT_OF_01 = {"source": "consumer", "target": "producer"}


@dataclass(frozen=True)
class Change:
    """One change of a file.

    Attributes:
        old: Path of the key after the changes before this one.
        written_at: Path of the key in the file.
        new: Its new path. None removes the key; the same path as `old` only changes the value.
        told: The text of the warning.
        place: File, line and column of the key.
        overwrites: Whether it replaces an existing value at `new`.
    """

    old: Path
    written_at: Path
    new: Path | None
    told: str
    place: tuple[str, int, int]
    overwrites: bool = False

    def __str__(self) -> str:
        file, line, column = self.place
        return f"{file}:{line}:{column}: {format_path(self.written_at)}: {self.told}"


@dataclass
class Modernized:
    """A file in today's spellings.

    Attributes:
        root: The document.
        changes: All changes, in order.
        problems: Old keys that cannot be understood.
    """

    root: Node
    changes: list[Change]
    problems: list[Problem]

    def written_at(self, path: Path) -> Path:
        """Path in the file of the key that has a given path now."""
        for change in reversed(self.changes):
            if change.new and path[: len(change.new)] == change.new:
                path = change.old + path[len(change.new) :]
        return path

    def warnings(self) -> Iterator[str]:
        """One line for each change."""
        yield from dict.fromkeys(str(change) for change in self.changes if change.told)


def sides_of_01(root: Node) -> set[str]:
    """The sides of which a file speaks as K2K 0.1 does."""
    return {side for side in _CLIENT_OF_01 if _find(root, (side, "kafka", "connection"))}


def modernized(root: Node, of_01: Collection[str]) -> Modernized:
    """One file in today's spellings; a file without older ones stays as it is.

    Args:
        root: The document.
        of_01: The sides of which one of the pipeline's files speaks as K2K 0.1 does (`sides_of_01`).
    """
    work = Modernized(root, [], [])
    for old in WITHOUT_EFFECT:
        _take_out(work, old, f"no effect: {WITHOUT_EFFECT[old]}; take it out")
    for old, new in MOVED.items():
        _move(work, old, new, f"an older spelling; write {format_path(new)}")
    for wrapper in _WRAPPERS:
        _unwrap(work, wrapper)
    for side in sorted(of_01):
        _share_who_connects(work, side)
    _name_progress(work)
    _merge_static_mappings(work)
    return work


def _move(work: Modernized, old: Path, new: Path, told: str) -> None:
    node = _find(work.root, old)
    if node is None:
        return
    there = _find(work.root, new)
    if not_a_section := _not_a_section(work.root, new):
        work.problems.append(not_a_section)
        work.root = _without(work.root, old)
    elif there is None or there.value is None:
        work.root = _put(_without(work.root, old), new, node)
        work.changes.append(_change(work, node, old, new, told))
    elif isinstance(node.value, dict) and isinstance(there.value, dict):
        for key in list(node.value):
            _move(work, (*old, key), (*new, key), told)
        _take_out(work, old, "")
    elif node.plain() == there.plain():
        _take_out(work, old, f"{format_path(new)} says the same; take it out")
    else:
        contrary = f"an older spelling of {format_path(new)}, which has another value; take one of them out"
        work.problems.append(Problem(node.file, node.line, node.column, work.written_at(old), contrary))
        work.root = _without(work.root, old)


def _not_a_section(root: Node, path: Path) -> Problem | None:
    """The fault above a path that leaves no place for a key there: a value or a list instead of a section."""
    for depth in range(1, len(path)):
        node = _find(root, path[:depth])
        if node and node.value is not None and not isinstance(node.value, dict):
            found = describe(node.plain(), path[:depth])
            return Problem(node.file, node.line, node.column, path[:depth], f"expected a mapping, found {found}")
    return None


def _take_out(work: Modernized, old: Path, told: str) -> None:
    node = _find(work.root, old)
    if node is not None:
        work.root = _without(work.root, old)
        work.changes.append(_change(work, node, old, None, told))


def _unwrap(work: Modernized, wrapper: Path) -> None:
    """Removes an empty section; keys that are left in it are unknown to every release."""
    node = _find(work.root, wrapper)
    if node is None:
        return
    if isinstance(node.value, dict):
        work.problems += [
            Problem(item.file, item.line, item.column, (*wrapper, key), "unknown key")
            for key, item in node.value.items()
        ]
    elif node.value is not None:
        work.problems.append(Problem(node.file, node.line, node.column, wrapper, "expected a mapping"))
    _take_out(work, wrapper, "")


def _share_who_connects(work: Modernized, side: str) -> None:
    """Moves connection settings to `common`: K2K 0.1 has no such section, so one client's apply to all of its side."""
    section: Path = (side, "kafka", _CLIENT_OF_01[side])
    client = _find(work.root, section)
    keys = list(client.value) if client and isinstance(client.value, dict) else []
    for key in (key for key in keys if key.startswith(_WHO_CONNECTS)):
        common: Path = (side, "kafka", "common", key)
        told = f"in a file of K2K 0.1 it applies to all clients; write {format_path(common)}"
        if _find(work.root, common) is None:
            _move(work, (*section, key), common, told)


def _name_progress(work: Modernized) -> None:
    """Moves `commit.group`, the name of the progress in K2K 0.1, to `group.id`; no consumer group is joined here."""
    node = _find(work.root, COMMIT_GROUP)
    if node is None:
        return
    places = (_GROUP, ("source", "kafka", "common", "group.id"))
    at = next((path for path in places if _find(work.root, path)), _GROUP)
    group = _find(work.root, at)
    if group is None or group.value is None or group.plain() == node.plain():
        _move(work, COMMIT_GROUP, at, f"an older spelling; write {format_path(at)}")
        return
    told = (
        f"it names the progress: write {_shown(node)} as {format_path(at)}, instead of {_shown(group)}, which "
        "named a consumer group; none is joined here"
    )
    work.root = _put(_without(work.root, COMMIT_GROUP), at, node)
    work.changes.append(_change(work, node, COMMIT_GROUP, at, told, overwrites=True))


def _shown(node: Node) -> str:
    return node.origin or f"'{node.value}'"


def _merge_static_mappings(work: Modernized) -> None:
    stages = _find(work.root, ("replication",))
    for position in range(len(stages.value) if stages and isinstance(stages.value, list) else 0):
        path: Path = ("replication", position, "sink", "topic", "staticMapping")
        node = _find(work.root, path)
        if node is None or not isinstance(node.value, list):
            continue
        maps = [item.value for item in node.value]
        entries = [entry for item in maps if isinstance(item, dict) for entry in item.items()]
        if all(isinstance(item, dict) for item in maps) and len({key for key, _ in entries}) == len(entries) > 0:
            work.root = _put(work.root, path, replace(node, value=dict(entries)))
            work.changes.append(_change(work, node, path, path, "an older spelling: a list of maps; write one map"))


def _change(work: Modernized, node: Node, old: Path, new: Path | None, told: str, overwrites: bool = False) -> Change:
    return Change(old, work.written_at(old), new, told, (node.file, node.line, node.column), overwrites)


def _find(root: Node, path: Path) -> Node | None:
    """The node at a path, if there is one."""
    node = root
    for part in path:
        inner = node.value
        if isinstance(inner, dict) and part in inner:
            node = inner[str(part)]
        elif isinstance(inner, list) and isinstance(part, int) and part < len(inner):
            node = inner[part]
        else:
            return None
    return node


def _without(node: Node, path: Path) -> Node:
    """A copy of the tree without the node at a path; aliases may share nodes, so none is changed."""
    key, *rest = path
    if not isinstance(node.value, dict) or key not in node.value:
        return node
    entries = dict(node.value)
    if rest:
        entries[str(key)] = _without(entries[str(key)], tuple(rest))
    else:
        del entries[str(key)]
    return replace(node, value=entries)


def _put(node: Node, path: Path, value: Node) -> Node:
    """A copy of the tree with a value at a path; missing sections are created with the value's line and column."""
    if not path:
        return value
    key, *rest = path
    if isinstance(node.value, list) and isinstance(key, int):
        items = list(node.value)
        items[key] = _put(items[key], tuple(rest), value)
        return replace(node, value=items)
    entries = dict(node.value) if isinstance(node.value, dict) else {}
    missing = replace(value, value={}, origin="", fault="")
    entries[str(key)] = _put(entries.get(str(key), missing), tuple(rest), value)
    return replace(node, value=entries)
