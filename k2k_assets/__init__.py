"""Kafka-to-Kafka replication as Dagster assets: exactly once, with exact offset mappings."""
