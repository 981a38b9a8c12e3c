"""Which consumer groups are translated: the filter on their names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from k2k_assets.pipeline.java_regex import compile_java


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """A filter on group names (`groups.consumerGroups`).

    Attributes:
        groups: One Java regular expression that matches whole names, or exact names.
    """

    groups: str | tuple[str, ...] = ".*"

    def matches(self, group: str) -> bool:
        """Whether a group is selected."""
        if isinstance(self.groups, str):
            return compile_java(self.groups).matches(group)
        return group in self.groups

    def absent(self, existing: Collection[str]) -> tuple[str, ...]:
        """Listed names that no existing group has; none for an expression."""
        return () if isinstance(self.groups, str) else tuple(name for name in self.groups if name not in existing)
