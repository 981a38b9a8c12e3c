"""Fixtures of the table tests."""

from __future__ import annotations

from k2k_assets_tests.support.spark.session import spark

__all__ = ["spark"]
