"""The topics and groups that the definitions of a pipeline show: those in the file, and the discovered ones."""

from __future__ import annotations

from typing import NamedTuple

from k2k_assets.discovery import Discovery, selection_of
from k2k_assets.pipeline import Pipeline


class ShownTopic(NamedTuple):
    """A source topic that has assets.

    Attributes:
        name: The source topic.
        target: Its target topic; None when the routing has no answer.
        partitions: Number of partitions on the source; None until discovered.
    """

    name: str
    target: str | None
    partitions: int | None


def shown_topics(pipeline: Pipeline, discovery: Discovery | None) -> list[ShownTopic]:
    """The topics, by name; none for a pattern before the first discovery."""
    found = discovery.topics if discovery else {}
    selected = {name for name in found if pipeline.selection.matches(name)}
    return [
        ShownTopic(name, pipeline.routing.target_if_any(name), found[name].partitions if name in found else None)
        for name in sorted(selected.union(pipeline.selection.literal or ()))
    ]


def shown_groups(pipeline: Pipeline, discovery: Discovery | None) -> list[str]:
    """The groups, by name; none for a pattern before the first discovery."""
    selection = selection_of(pipeline)
    listed = () if isinstance(selection.groups, str) else selection.groups
    return sorted({*listed, *(group for group in (discovery.groups if discovery else ()) if selection.matches(group))})
