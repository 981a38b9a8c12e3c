"""The record of the assignment topic that pauses a topic: kept until it is resumed. Older releases ignore it."""

from __future__ import annotations

from dataclasses import dataclass

from k2k_assets.core import json_codec, wire

VERSION = 1


@dataclass(frozen=True, slots=True)
class Pause:
    """A source topic is not copied until somebody resumes it.

    Attributes:
        by: User and host.
        time: Since when, milliseconds since the epoch, UTC.
        why: The user's reason; None if the user gave none.
    """

    by: str
    time: int
    why: str | None = None

    def __str__(self) -> str:
        return f"paused by {self.by}" + (f": {self.why}" if self.why else "")


class _PauseValue(wire.Value, frozen=True):
    by: str
    time: int
    why: str | None = None


def pause_key(group: str, topic: str) -> bytes:
    """The key of a pause record; its tombstone resumes the topic."""
    return json_codec.encode({"kind": "pause", "group": group, "topic": topic})


def pause_value(pause: Pause) -> bytes:
    """The value of a pause record."""
    return wire.encode(_PauseValue(VERSION, pause.by, pause.time, pause.why))


def parse_pause(value: bytes, where: str) -> Pause:
    """Reads the value of a pause record.

    Raises:
        ValueError: The value cannot be read.
    """
    return Pause(**wire.contents(wire.decode(_PauseValue, value, VERSION, where)))
