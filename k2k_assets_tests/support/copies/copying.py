"""Runs the copy engine in threads, or in processes that die, and compares the result.

The engine, its driver and its clients are the real ones; only Spark is left out, which has tests of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from k2k_assets.control.commit_record import CommitRecord, is_other_kind
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reason import render, render_topic
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.replication.driver.events import Event, ProgressRead
from k2k_assets.replication.driver.job import Runner
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.replication.driver.progress import Progress
from k2k_assets.replication.driver.replicate import replicate_with
from k2k_assets.replication.extent import Continuous, Extent, UntilCaughtUp
from k2k_assets.replication.plan import SlotPlan
from k2k_assets.replication.slot import slot as slot_module
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.replication.slot.task import SlotResult, copy_slot
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.client_statistics import ClientStatistics
from k2k_assets.transport.factory import TRANSPORTS
from k2k_assets.transport.interface import Transport
from k2k_assets.transport.record_batch.writing.batch_control_writer import BatchControlWriter
from k2k_assets_tests.support.brokers.kafka import ReadRecord, read_all

# Separate processes start quickly: they are forked from one that has imported everything and has no threads.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["k2k_assets_tests.support.copies.copying"])


# Key of an unreadable record in a control topic.
UNREADABLE = b"\xff unreadable"


def in_threads(plans: Any) -> list[SlotResult]:
    """Runs each slot in a thread of this process."""
    with ThreadPoolExecutor(len(plans)) as pool:
        return list(pool.map(copy_slot, plans))


def copy(
    pipeline: Pipeline, extent: Extent | None = None, cores: int = 2, runner: Runner = in_threads, **rest: Any
) -> Outcome:
    """Runs a pipeline until it has caught up, or as `extent` says."""
    return replicate_with(runner, cores, pipeline, extent or UntilCaughtUp(), **rest)


def told(outcome: Outcome) -> dict[str, str]:
    """What people read of each topic that was stopped."""
    return {topic: render_topic(topic, stops) for topic, stops in outcome.stopped.items()}


class Running:
    """A continuous copy in a thread; one that a failed test has left running is stopped (`stop_all`)."""

    _alive: ClassVar[list[Running]] = []

    def __init__(self, pipeline: Pipeline, cores: int, runner: Runner = in_threads, **rest: Any) -> None:
        self.progress: Progress | None = None
        self.events: list[Event] = []
        self.error: Exception | None = None
        self.outcome: Outcome | None = None
        self.stop = threading.Event()
        self._abandoned = threading.Event()
        self._all_end = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(pipeline, cores, runner), kwargs=rest, daemon=True)
        self._thread.start()
        self._alive.append(self)

    @classmethod
    def stop_all(cls) -> None:
        """Lets all copies end that run still, without waiting for that."""
        while cls._alive:
            ending = cls._alive.pop()
            ending.stop.set()
            ending._all_end.set()

    def _run(self, pipeline: Pipeline, cores: int, runner: Runner, **rest: Any) -> None:
        def held(plans: Any) -> list[SlotResult]:
            try:
                return runner(plans)
            finally:
                if self._abandoned.is_set():
                    self._all_end.wait()  # a dead driver does nothing any more

        try:
            told = {"stop": self.stop, "listener": self._listen}
            self.outcome = copy(pipeline, Continuous(), cores, held, **told, **rest)
        except Exception as error:
            self.error = error

    def _listen(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ProgressRead):
            self.progress = event.progress

    def copied(self) -> int:
        return sum(p.records for p in self.progress.partitions.values()) if self.progress else 0

    def positions(self) -> dict[TopicPartition, int]:
        return {tp: p.position for tp, p in self.progress.partitions.items()} if self.progress else {}

    def told(self, at: TopicPartition) -> str | None:
        """What people read of a partition that was stopped; None while it is not."""
        stopped = self.progress.partitions[at].stopped if self.progress else None
        return render(stopped) if stopped else None

    def await_copied(self, records: int) -> None:
        wait_until(lambda: self.copied() >= records or self.error, 240, f"{records} records to be copied")
        if self.error is not None:
            raise self.error

    def join(self) -> None:
        self._thread.join(240)
        assert not self._thread.is_alive()

    def end(self) -> None:
        """Stops it as a signal does; it must end well."""
        self.stop.set()
        self.join()
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """Lets the driver do nothing any more once its slots have ended, as if it had been killed with them."""
        self._abandoned.set()


def kill_living(worker: BaseProcess) -> None:
    """SIGKILL to a child of the fork server.

    If it has died and was not asked for since, its id may be that of another process by now, and `kill` does not look.
    """
    if worker.is_alive():
        worker.kill()


def in_processes() -> tuple[Runner, Callable[[], None]]:
    """A runner whose slots are processes, and what kills all of them by SIGKILL."""
    workers: list[Any] = []
    started = threading.Event()

    def run(plans: Any) -> list[SlotResult]:
        new = [PROCESSES.Process(target=copy_slot, args=(plan,), daemon=True) for plan in plans]
        for worker in new:
            worker.start()
        workers.extend(new)
        started.set()
        for worker in new:
            worker.join()
        if any(worker.exitcode for worker in new):
            raise RuntimeError("slots died")
        return [SlotResult(plan.slot, "", "", {}, {}) for plan in plans]

    def kill() -> None:
        assert started.wait(240), "no slot has started"
        for worker in workers:
            kill_living(worker)

    return run, kill


def copying_by(transport: str | None) -> AbstractContextManager[object]:
    """Lets slots of this process copy by a transport, whatever their pipeline says.

    Args:
        transport: As the factory knows it; None: as their pipeline says.
    """
    if transport is None:
        return nullcontext()

    def made(pipeline: Pipeline, statistics: ClientStatistics | None = None) -> Transport:
        return TRANSPORTS[transport](pipeline, statistics)

    def none(_pipeline: Pipeline, _statistics: ClientStatistics | None = None) -> Transport:
        raise AssertionError(f"a slot does not go on by {transport}")

    return patch.multiple(slot_module, transport_of=made, records_transport_of=none)


def dying_first(step: str, occurrence: int, transport: str | None = None) -> Runner:
    """A runner whose first slots die by SIGKILL at a step of their sink; later ones live.

    Args:
        step: See `DyingSink`.
        occurrence: At which call of that step, from 1.
        transport: By which they copy, as of `copying_by`.
    """
    lives = 0

    def run(plans: Any) -> list[SlotResult]:
        nonlocal lives
        lives += 1
        if lives > 1:
            with copying_by(transport):
                return in_threads(plans)
        workers = [PROCESSES.Process(target=_copy_and_die, args=(plan, step, occurrence, transport)) for plan in plans]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(240)
        died = [worker.exitcode for worker in workers]
        for worker in workers:
            kill_living(worker)
        assert -signal.SIGKILL in died, f"no slot died at {step} {occurrence}: {died}"
        raise RuntimeError(f"slots died: {died}")

    return run


def _copy_and_die(plan: SlotPlan, step: str, occurrence: int, transport: str | None) -> None:
    make = Slot._sink

    def dying(self: Slot) -> Any:
        return DyingSink(make(self), step, occurrence)

    Slot._sink = dying  # type: ignore[method-assign]
    with copying_by(transport):
        copy_slot(plan)


def flush_transaction(sink: Any, seconds: float) -> None:
    """Sends what is queued in a sink's open transaction; at least once that is its control records'."""
    control = getattr(sink, "_control", sink)
    if isinstance(control, BatchControlWriter):
        control._queue_controls()
        control._producer.flush()
    else:
        control._producer.flush(seconds)


class DyingSink:
    """A sink that kills its process, or sends it another signal.

    Steps: `open`, `begin`, `write`, `settle`, `write_control`, `commit` (each right after the real call) and
    `before_commit`, `during_commit` (the commit request is on its way).

    Args:
        sink: The real one.
        step: When it happens.
        occurrence: At which call of that step, from 1.
        number: The signal.
        frozen: Freezes the process instead, unless another one has made this file, and writes its process id there.
    """

    def __init__(
        self, sink: Any, step: str, occurrence: int, number: int = signal.SIGKILL, frozen: Path | None = None
    ) -> None:
        self._sink, self._step, self._left = sink, step, occurrence
        self._number = signal.SIGSTOP if frozen else number
        self._frozen = frozen

    @property
    def befallen(self) -> bool:
        """Whether the signal was sent; a session may break before."""
        return self._left <= 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        real = getattr(self._sink, name)

        def call(*args: Any) -> Any:
            if name == "commit":
                self._die_at("before_commit")
                self._die_during_commit()
            result = real(*args)
            self._die_at(name)
            return result

        return call

    def _die_during_commit(self) -> None:
        if self._reaches("during_commit"):
            flush_transaction(self._sink, 30)
            _signal_after(0.002, self._number)

    def _die_at(self, step: str) -> None:
        if self._reaches(step):
            os.kill(os.getpid(), self._number)

    def _reaches(self, step: str) -> bool:
        if step != self._step:
            return False
        self._left -= 1
        return self._left == 0 and (self._frozen is None or _is_first(self._frozen))


def _is_first(file: Path) -> bool:
    try:
        with file.open("x") as claimed:
            claimed.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True


def _signal_after(seconds: float, number: int) -> None:
    """Kills (or stops) this process after a while, also inside a call into C: a handler would wait for its end."""
    threading.Timer(seconds, os.kill, (os.getpid(), number)).start()


def contents(records: list[ReadRecord], headers: bool = True) -> list[tuple[Any, ...]]:
    """What has to be equal on both sides, in the order of each partition."""
    return [(r.partition, r.key, r.value, r.headers if headers else [], r.timestamp) for r in records]


def assert_same_content(source: str, topic: str, target: str, target_topic: str | None = None) -> int:
    """Both topics hold the same records in the same order, partition by partition; returns how many."""
    wanted, found = read_all(source, topic), read_all(target, target_topic or topic)
    assert contents(found) == contents(wanted)
    return len(found)


def _readable(records: list[ReadRecord]) -> list[ReadRecord]:
    return [record for record in records if record.key != UNREADABLE]


def mapping_records(pipeline: Pipeline, target: str) -> list[MappingRecord]:
    """All committed mapping records of the pipeline's group, in the order of their transactions."""
    read = _readable(read_all(target, pipeline.offset_mapping.topic))
    records = [MappingRecord.parse(r.key, r.value) for r in read]
    return sorted((r for r in records if r.group == pipeline.group), key=lambda r: (r.generation, r.sequence))


def commit_records(pipeline: Pipeline, target: str) -> list[CommitRecord]:
    """All committed commit records of the pipeline's group, in the order of their transactions."""
    read = _readable(read_all(target, pipeline.coordination.commit.topic))
    # Commit and assignment records may share a topic.
    records = [CommitRecord.parse(r.key, r.value, str(r.offset)) for r in read if not is_other_kind(r.key)]
    return sorted((r for r in records if r.group == pipeline.group), key=lambda r: r.order)


@dataclass(frozen=True, slots=True)
class MappedOffsets:
    """What the mapping records say of the source offsets of one topic.

    Attributes:
        copies: Target partition and offset by source partition and offset.
        dropped: The rule that left it out, by source partition and offset.
    """

    copies: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    dropped: dict[tuple[int, int], str] = field(default_factory=dict)


def mapped_offsets(pipeline: Pipeline, target: str, topic: str) -> MappedOffsets:
    """What became of the offsets of a source topic: coverage has no gap and no overlap, no offset is mapped twice."""
    found, covered = MappedOffsets(), dict[int, int]()
    for record in (each for each in mapping_records(pipeline, target) if each.topic == topic):
        assert record.covered_from == covered.get(record.partition, record.covered_from)
        covered[record.partition] = record.covered_to
        within = range(record.covered_from, record.covered_to)
        for part in record.targets:
            assert part.topic == pipeline.routing.target_topic(topic)
            for run in part.runs:
                for n in range(run.count):
                    at = record.partition, run.source_start + n
                    assert at not in found.copies
                    assert at[1] in within
                    found.copies[at] = part.partition, run.target_start + n
        for each in record.dropped:
            for start, end in each.ranges:
                assert record.covered_from <= start < end <= record.covered_to
                found.dropped.update({(record.partition, offset): each.rule for offset in range(start, end)})
    return found


def assert_exact_mappings(
    pipeline: Pipeline,
    source: str,
    target: str,
    topic: str,
    content: Callable[[ReadRecord], object] = lambda record: contents([record])[0][1:],
) -> None:
    """Every copied record is mapped once, to the record that it became; coverage has no gap and no overlap.

    Args:
        pipeline: Has copied the topic.
        source: Bootstrap address.
        target: Bootstrap address.
        topic: The source topic.
        content: What a record and its copy have in common, and no other record has.
    """
    at_source = {(r.partition, r.offset): content(r) for r in read_all(source, topic)}
    target_topic = pipeline.routing.target_topic(topic)
    at_target = {(r.partition, r.offset): content(r) for r in read_all(target, target_topic)}
    mapped = mapped_offsets(pipeline, target, topic).copies
    assert set(mapped) == set(at_source)
    assert {pair: at_target[there] for pair, there in mapped.items()} == at_source


def assert_exact_copy(clusters: KafkaSandbox, path: Path, topic: str) -> None:
    """Content and mappings of a topic that the pipeline in a file has copied."""
    assert_same_content(clusters.source_servers, topic, clusters.target_servers)
    assert_exact_mappings(load_pipeline([path]), clusters.source_servers, clusters.target_servers, topic)
