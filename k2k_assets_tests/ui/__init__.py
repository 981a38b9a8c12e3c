"""Tests of Dagster's UI in a real browser: `make ui-test` runs them, `make screenshots` keeps the pictures."""
