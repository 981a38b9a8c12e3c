"""Detects when a copy reaches a step, from the calls of its sink, without counting transactions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.interface import Delivery, Sink

WrapSink = Callable[[Sink], Sink]

_wraps: dict[str, WrapSink] = {}
_make_sink = Slot._sink
_changing = threading.Lock()


def _wrapped_sink(self: Slot) -> Sink:
    wrap = _wraps.get(self._plan.pipeline.name)
    sink = _make_sink(self)
    return wrap(sink) if wrap else sink


@contextmanager
def sinks_wrapped(pipeline: Pipeline, wrap: WrapSink) -> Iterator[None]:
    """Wraps the sink of every session of one pipeline; several pipelines may be copied at once."""
    with _changing:
        Slot._sink = _wrapped_sink  # type: ignore[method-assign]
        _wraps[pipeline.name] = wrap
    try:
        yield
    finally:
        with _changing:
            del _wraps[pipeline.name]
            if not _wraps:
                Slot._sink = _make_sink  # type: ignore[method-assign]


class WrappedSink:
    """A sink around another one; what a test needs to be different it overrides."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def open(self) -> None:
        self._sink.open()

    def raise_epochs(
        self, former: Mapping[TopicPartition, ProducerIdentity | None]
    ) -> Mapping[TopicPartition, ProducerIdentity]:
        return self._sink.raise_epochs(former)

    def begin(self) -> None:
        self._sink.begin()

    def write(self, chunk: Chunk) -> Sent:
        return self._sink.write(chunk)

    def write_aside(self, chunk: Chunk) -> None:
        self._sink.write_aside(chunk)

    def foresee(self) -> Sequence[Delivery] | None:
        return self._sink.foresee()

    def settle(self) -> Sequence[Delivery]:
        return self._sink.settle()

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        self._sink.write_control(topic, partition, key, value)

    def commit(self) -> None:
        self._sink.commit()

    def close(self) -> None:
        self._sink.close()


class Steps:
    """Calls a function once for each step, just before the sink takes it, in whichever session that is.

    Steps: `open`; `claim` and `start`, the first two transactions; `fence`, when it is written that the holder of a
    claim of another pipeline was fenced; `first`, `middle` and `last`, when the first record, the one in the middle,
    and the last one are written; `commit`, when the transaction with the one in the middle is to be committed;
    `release`, when the first claim of this pipeline is given up.

    Args:
        pipeline: What is copied, from one source partition.
        offsets: Of the committed source records.
        come_to: Called with the step; what it raises the session meets.
    """

    def __init__(self, pipeline: Pipeline, offsets: Sequence[int], come_to: Callable[[str], None]) -> None:
        self._assignment = pipeline.coordination.assignment.topic
        self._own = f'"k2k.{pipeline.name}.'.encode()  # as the transactional ids begin in the keys of claims
        self._marks = {"first": offsets[0], "middle": offsets[len(offsets) // 2], "last": offsets[-1]}
        self._come_to = come_to
        self._begun = 0
        self._told: set[str] = set()

    def wrap(self, sink: Sink) -> Sink:
        """A sink that tells."""
        return _TellingSink(sink, self)

    def opens(self) -> None:
        self._tell("open")

    def begins(self) -> None:
        self._begun += 1
        if self._begun <= 2:
            self._tell("claim" if self._begun == 1 else "start")

    def writes(self, chunk: Chunk) -> None:
        for step, offset in self._marks.items():
            if chunk.records.last_offset >= offset:
                self._tell(step)

    def commits(self) -> None:
        if "middle" in self._told:
            self._tell("commit")

    def writes_control(self, topic: str, key: bytes, value: bytes | None) -> None:
        if topic == self._assignment and value is None and b"transactionalId" in key:
            self._tell("release" if self._own in key else "fence")

    def _tell(self, step: str) -> None:
        if step not in self._told:
            self._told.add(step)
            self._come_to(step)


class _TellingSink(WrappedSink):
    def __init__(self, sink: Sink, steps: Steps) -> None:
        super().__init__(sink)
        self._steps = steps

    def open(self) -> None:
        self._steps.opens()
        super().open()

    def begin(self) -> None:
        self._steps.begins()
        super().begin()

    def write(self, chunk: Chunk) -> Sent:
        self._steps.writes(chunk)
        return super().write(chunk)

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        self._steps.writes_control(topic, key, value)
        super().write_control(topic, partition, key, value)

    def commit(self) -> None:
        self._steps.commits()
        super().commit()
