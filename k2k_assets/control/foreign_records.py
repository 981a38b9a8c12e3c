"""What to say of a record in a control topic that no release of k2k has written. Pure.

The default names of the control topics are K2K's own, so a target that K2K has copied to may have topics of these
names, whose records only K2K can read.
"""

from __future__ import annotations

from k2k_assets.core import json_codec

_OWN = ("group", "kind")


def is_foreign(key: bytes | None) -> bool:
    """Whether a key is not of the form that all records of k2k's control topics have."""
    try:
        document = json_codec.decode(key, "key")
    except ValueError:
        return True
    return not any(name in document for name in _OWN)


def foreign_hint(key: bytes | None, topic: str, setting: str) -> str:
    """What it means and what to do, to append to an error; empty if k2k has written the record.

    Args:
        key: The key of the record.
        topic: The control topic.
        setting: The key of the pipeline file that names it.
    """
    if not is_foreign(key):
        return ""
    return (
        f". No k2k has written this record: {topic} is, or was, a control topic of another tool, such as K2K. Give the "
        f"pipeline one of its own ({setting}); positions of the other tool are taken over by k2k-tool adopt"
    )
