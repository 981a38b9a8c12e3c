"""Gives a broker a data directory as Kafka's storage tool does: by the tool once, then by what the tool had written.

The tool is a Java program that takes most of a second. What it writes differs from directory to directory by two ids
only; its binary part, the features of the Kafka release, is kept in the cache beside the jars.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.sandbox.broker_settings import random_id

_FEATURES = "bootstrap.checkpoint"
_IDS = "meta.properties"


def is_formatted(data: Path) -> bool:
    """Whether a broker can start on a data directory."""
    return (data / _IDS).exists()


def format_data(data: Path, cluster_id: str, jars: Path, by_tool: Callable[[], None], node: str = "1") -> None:
    """Makes a data directory that a broker can start on.

    Args:
        data: Need not be there.
        cluster_id: Of the new cluster.
        jars: Directory of the jars of this Kafka release.
        by_tool: Lets Kafka's own tool do it.
        node: The node id.
    """
    kept = jars.with_name(f"{jars.name}-{_FEATURES}")
    if kept.is_file():
        data.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, data / _FEATURES)
        ids = {"version": "1", "cluster.id": cluster_id, "node.id": node, "directory.id": random_id()}
        (data / _IDS).write_text("".join(f"{key}={value}\n" for key, value in ids.items()))  # last: now it is formatted
        return
    by_tool()
    with contextlib.suppress(OSError):  # the next one is slower then
        write_atomically(kept, (data / _FEATURES).read_bytes())
