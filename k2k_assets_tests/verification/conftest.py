"""Fixtures of the check tests."""

from k2k_assets_tests.support.spark import spark

__all__ = ["spark"]
