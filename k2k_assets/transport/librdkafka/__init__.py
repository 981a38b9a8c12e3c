"""Transport through librdkafka: a record at a time."""
