"""Dagster's UI in a real browser: `make ui-test` runs these, `make screenshots` keeps the pictures."""
