"""Kafka's protocol in pure Python, for whole record batches: they are moved undecoded.

`wire/` speaks to brokers, `batches/` takes batches apart and makes them, `reading/` is the source and `writing/` the
sinks.
"""
