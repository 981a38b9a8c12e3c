"""Topic ids from the admin client, without the reference that it leaks.

confluent-kafka (2.16) keeps one reference too many on the `Uuid` of each topic that it describes: about 100 bytes, and
a slot describes its topics with every commit. Nothing finds it again, so it is let go here, and only when the count of
references says that it is there: a release without the leak is left alone.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

# Of a `Uuid` that only its topic holds, as `topic_id` sees it: the topic, the local variable, the call's argument.
_WITHOUT_LEAK = 3


def topic_id(topic: Any) -> str:
    """The id of a described topic as text."""
    uuid = topic.topic_id
    text = str(uuid)
    if sys.getrefcount(uuid) == _WITHOUT_LEAK + 1:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(uuid))
    return text
