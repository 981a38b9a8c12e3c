"""The name that stands for any `group.id`."""

from __future__ import annotations

ANY_GROUP = "*"
"""Stands for any `group.id`: the first pipeline that maps a source partition counts as the own one."""
