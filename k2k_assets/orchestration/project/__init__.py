"""Pipelines in a Dagster project of the user's own: by a function, or by a component that `dg` knows."""
