"""K2K keys that are no part of the models: of no effect here, whatever they say."""

from __future__ import annotations

from collections.abc import Iterator

from k2k_assets.pipeline.problems import Path, format_path

IGNORED: dict[Path, str] = {("license",): "everything is free here"}
"""Accepted without a look at the value, and why."""


def take_out(document: dict[str, object]) -> Iterator[str]:
    """Remove all these keys from a document in place; yields a line for each that was there."""
    for path, why in IGNORED.items():
        if _pop(document, path) is not None:
            yield f"no effect: {format_path(path)}: {why}"


def _pop(document: dict[str, object], path: Path) -> object:
    section: object = document
    for key in path[:-1]:
        if not isinstance(section, dict):
            return None
        section = section.get(key)
    return section.pop(path[-1], None) if isinstance(section, dict) else None


def sibling_keys(section: Path) -> set[str]:
    """The names among these keys that stand directly in a section, for suggestions."""
    return {str(path[-1]) for path in IGNORED if path[:-1] == section}
