"""Reads and writes offsets as Spark's Kafka source does: `{"orders":{"0":23,"1":45}}`, or a checkpoint's file. Pure.

A checkpoint's file, `<checkpoint>/offsets/<batch>`, has lines of text; its name is the number of a batch:

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{...}}
    {"orders":{"0":23,"1":45}}                                              one line for each source of the query
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import HIGHEST_OFFSET, TopicPartition, by_topic


def parse(text: str, where: str) -> dict[TopicPartition, int]:
    """Reads the positions from a text.

    Args:
        text: The JSON alone, or the file of a checkpoint.
        where: Names the text in errors.

    Raises:
        Refused: The text is neither, or the query has several Kafka sources.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    whole = _positions(text)
    found = [whole] if whole is not None else [p for line in lines if (p := _positions(line)) is not None]
    if not lines or not found or (whole is None and not lines[0].startswith("v")):
        raise Refused(
            f'{where} holds no offsets of Spark\'s Kafka source: wanted {{"topic":{{"0":23}}}}, or a file of '
            "<checkpoint>/offsets whose last line is such"
        )
    if len(found) > 1:
        raise Refused(f"{where} holds the offsets of {len(found)} Kafka sources: translate each line by itself")
    beyond = [str(tp) for tp, offset in found[0].items() if offset > HIGHEST_OFFSET]
    if beyond:
        raise Refused(f"{where} holds no offset for {', '.join(beyond)}: it is larger than {HIGHEST_OFFSET}")
    logical = [str(tp) for tp, offset in found[0].items() if offset < 0]
    if logical:
        raise Refused(
            f"{where} holds no offset for {', '.join(logical)} but a logical one (-1 latest, -2 earliest): "
            "those mean the same on both sides, and need no translation"
        )
    return found[0]


def render(offsets: Mapping[TopicPartition, int]) -> str:
    """Writes positions as Spark's JSON, in one line."""
    return json.dumps(by_topic(offsets), separators=(",", ":"))


def _positions(text: str) -> dict[TopicPartition, int] | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, dict) or not document:
        return None
    found: dict[TopicPartition, int] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict) or not partitions:
            return None
        for partition, offset in partitions.items():
            if not partition.isdecimal() or not isinstance(offset, int) or isinstance(offset, bool):
                return None
            found[TopicPartition(topic, int(partition))] = offset
    return found
