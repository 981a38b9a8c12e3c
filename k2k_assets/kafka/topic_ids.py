"""Topic ids from the admin client, without the reference that it leaks.

confluent-kafka (2.16) keeps one reference too many on the `Uuid` of each topic that it describes: about 100 bytes, and
a slot describes its topics with every commit. Its API has no other way to a topic's id, and nothing finds the reference
again. So it is let go here, and only when the count of references says that it is there: a release without the leak is
left alone.

Tried with confluent-kafka 2.16.1. `k2k_assets_tests/kafka/test_topic_ids.py` fails on any other version, for a
reference that is let go of although somebody holds it ends the process. To check then: is the leak still there? If not,
this module goes. Is the count the same, with and without it? Then the version is added to those that were tried.
"""

from __future__ import annotations

import ctypes
import sys

from confluent_kafka.admin import TopicDescription

# Of a `Uuid` that only its topic holds, as `topic_id` sees it: the topic, the local variable, the call's argument.
_WITHOUT_LEAK = 3


def topic_id(topic: TopicDescription) -> str:
    """The id of a described topic as text."""
    uuid = topic.topic_id
    text = str(uuid)
    if sys.getrefcount(uuid) == _WITHOUT_LEAK + 1:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(uuid))
    return text
