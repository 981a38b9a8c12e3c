"""Fixtures of the tests of consumer groups."""

from k2k_assets_tests.groups.mapper_world import world

__all__ = ["world"]
