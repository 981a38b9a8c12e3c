"""Tests of what Dagster shows of a check."""
