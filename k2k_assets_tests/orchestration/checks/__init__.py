"""Tests of the checks in Dagster."""
