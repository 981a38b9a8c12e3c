"""K2K keys that the models do not have: they are accepted and have no effect."""

from __future__ import annotations

from collections.abc import Iterator

from k2k_assets.pipeline.parsing.problems import Path, format_path

IGNORED: dict[Path, str] = {("license",): "everything is free here"}
"""Keys whose value is not checked, and why they have no effect."""


def take_out(document: dict[str, object]) -> Iterator[str]:
    """Removes these keys from a document in place; yields a line for each that it had."""
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
    """Those of these keys that belong directly to a section, for suggestions."""
    return {str(path[-1]) for path in IGNORED if path[:-1] == section}
