"""Several files of one pipeline: maps are merged deeply, everything else is replaced by the later file."""

from __future__ import annotations

from k2k_assets.pipeline.document import Node


def merge(base: Node, override: Node) -> Node:
    """The union of two trees; where both have a value, the later file's, with the later file's line.

    A map that both have stays at the first file's line: what is missing in it is looked for there.
    """
    if not (isinstance(base.value, dict) and isinstance(override.value, dict)):
        return override
    merged = dict(base.value)
    for key, node in override.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    return Node(merged, base.file, base.line)
