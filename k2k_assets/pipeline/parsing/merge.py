"""Merges several files of one pipeline: maps deeply; the later file replaces everything else."""

from __future__ import annotations

from dataclasses import replace

from k2k_assets.pipeline.parsing.document import Node


def merge(base: Node, override: Node) -> Node:
    """The union of two trees; where both have a value, the later file's, with the later file's line.

    A map that both have keeps the first file's line, because readers look there for missing keys.
    """
    if not (isinstance(base.value, dict) and isinstance(override.value, dict)):
        return override
    merged = dict(base.value)
    for key, node in override.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    return replace(base, value=merged)


def filled(node: Node, defaults: Node) -> Node:
    """A tree, completed with values from another one; where both have a value, its own stays."""
    if not (isinstance(node.value, dict) and isinstance(defaults.value, dict)):
        return node
    whole = dict(node.value)
    for key, default in defaults.value.items():
        whole[key] = filled(whole[key], default) if key in whole else default
    return replace(node, value=whole)
