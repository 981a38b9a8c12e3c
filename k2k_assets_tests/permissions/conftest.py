"""Fixtures of the tests of permissions."""

from k2k_assets_tests.support.spark import spark

__all__ = ["spark"]
