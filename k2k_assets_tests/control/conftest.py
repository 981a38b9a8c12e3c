"""Fixtures of the tests of control topics."""

from k2k_assets_tests.topics.conftest import source, target

__all__ = ["source", "target"]
