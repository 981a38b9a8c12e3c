"""Transports bring chunks of records from the source to the target; the copy loop knows only `interface.py`."""
