"""Deletes old runs and events from Dagster's database, which would grow forever otherwise."""
