"""A record as the client library gives it, for rooms that do not know the library."""

from __future__ import annotations

from confluent_kafka import Message

__all__ = ["Message"]
