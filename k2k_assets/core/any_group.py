"""The name that stands for any `group.id`."""

from __future__ import annotations

ANY_GROUP = "*"
"""Stands for any `group.id`; which one counts as the own one, `InMemoryMappings` finds for each source partition."""
