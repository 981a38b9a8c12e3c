"""Pipelines in a user's own Dagster project: by a function, or by a component for `dg`."""
