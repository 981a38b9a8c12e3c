"""The checks as Dagster asset checks; their logic is in `verification`."""
