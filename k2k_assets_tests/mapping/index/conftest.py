"""Fixtures of the index's tests."""

from k2k_assets_tests.support.spark.session import spark

__all__ = ["spark"]
