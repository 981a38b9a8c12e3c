"""Keeps Dagster's database from growing without end: nothing else deletes runs and events."""
