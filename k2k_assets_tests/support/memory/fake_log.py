"""A fake reader of a topic, which returns the records of a test."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import topic_follower


class FakeLog:
    """Attributes:
    reached: Next offset to read.
    doubts: The ends up to which somebody has doubted it.
    """

    def __init__(self, _: Any, starts: Mapping[TopicPartition, int], *__: Any, **___: Any) -> None:
        self.reached = dict(starts)
        self.doubts: list[Any] = []
        self.fails: Exception | None = None
        self._batches: list[list[Any]] = []

    def write(self, *records: tuple[bytes | None, bytes | None], tp: TopicPartition | None = None) -> None:
        """Makes a batch of records: keys and values."""
        tp = tp or min(self.reached)
        first = self.reached[tp] + sum(len(batch) for batch in self._batches)
        self._batches.append([message(tp, first + at, *record) for at, record in enumerate(records)])

    def poll(self, _: float) -> list[Any]:
        if self.fails:
            error, self.fails = self.fails, None
            raise error
        batch = self._batches.pop(0) if self._batches else []
        for message in batch:
            self.reached[TopicPartition(message.topic(), message.partition())] = message.offset() + 1
        return batch

    def doubt_if_behind(self, ends: Mapping[TopicPartition, int]) -> None:
        behind = {tp: end for tp, end in ends.items() if self.reached[tp] < end}
        if behind:
            self.doubts.append(behind)

    def read_from(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.reached.update(offsets)

    def close(self) -> None:
        pass


def play(monkeypatch: pytest.MonkeyPatch) -> list[FakeLog]:
    """Followers read from such a log from now on; returns those that were made, the newest one last."""
    made: list[FakeLog] = []

    def log(*arguments: Any, **named: Any) -> FakeLog:
        made.append(FakeLog(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(topic_follower, "LogReader", log)
    return made


def message(tp: TopicPartition, offset: int, key: bytes | None, value: bytes | None) -> Any:
    """A record as a consumer returns it."""
    found = {"topic": tp.topic, "partition": tp.partition, "offset": offset, "key": key, "value": value}
    return SimpleNamespace(**{name: partial(_given, what) for name, what in found.items()})


def _given(what: Any) -> Any:
    return what
