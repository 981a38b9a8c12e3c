"""Kafka clusters through librdkafka: clients, metadata, offsets, configs, groups. Every call has a deadline."""
