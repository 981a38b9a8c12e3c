"""Kafka's protocol in pure Python, for whole record batches: they are moved undecoded. So far it only reads."""
