"""Reads topic ids from the admin client, and frees the reference that it leaks.

confluent-kafka (2.16) keeps one reference too many on the `Uuid` of each topic that it describes: about 100 bytes, and
a slot describes its topics with every commit. Its API has no other way to a topic's id, and no other code can free the
reference. This module frees it, but only when the reference count shows that it is there: a release without the leak is
left alone.

Tried with confluent-kafka 2.16.1. `k2k_assets_tests/kafka/test_topic_ids.py` fails on any other version, because
freeing a reference that is in use crashes the process. For a new version check: is the leak still there? If not, remove
this module. Are the counts with and without the leak the same? Then add the version to the tried ones.
"""

from __future__ import annotations

import ctypes
import sys

from confluent_kafka.admin import TopicDescription

# References to a `Uuid` as `topic_id` counts them: by the topic, by the local variable, by the argument of the call.
_WITHOUT_LEAK = 3


def topic_id(topic: TopicDescription) -> str:
    """The id of a described topic as text."""
    uuid = topic.topic_id
    text = str(uuid)
    if sys.getrefcount(uuid) == _WITHOUT_LEAK + 1:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(uuid))
    return text
