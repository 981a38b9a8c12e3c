"""Which consumer groups of a pipeline the definitions show: listed in the file, or discovered."""

from __future__ import annotations

from k2k_assets.discovery import Discovery, selection_of
from k2k_assets.pipeline import Pipeline


def shown_groups(pipeline: Pipeline, discovery: Discovery | None) -> list[str]:
    """The groups, by name; none for a pattern of which nothing is discovered yet."""
    selection = selection_of(pipeline)
    listed = () if isinstance(selection.groups, str) else selection.groups
    return sorted({*listed, *(group for group in (discovery.groups if discovery else ()) if selection.matches(group))})
