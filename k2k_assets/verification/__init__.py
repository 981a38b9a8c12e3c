"""Whether copies, mappings and groups are right, by looking at both clusters. Without Dagster."""
