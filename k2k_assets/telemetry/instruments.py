"""The instruments of a replication, fed by its events.

What is counted comes from commit records: a transaction that was aborted counts nothing, and what a killed worker had
committed counts all the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import (
    Committed,
    Event,
    GenerationStarted,
    HandedOver,
    PartitionClaimed,
    PartitionStopped,
    ProgressRead,
)
from k2k_assets.replication.driver.progress import PartitionProgress, Progress

Labels = dict[str, str | int]
_Observer = Callable[[CallbackOptions], Iterable[Observation]]


@dataclass(slots=True)
class _Totals:
    """What this instance has committed of a partition."""

    records: int = 0
    bytes: int = 0
    commits: int = 0
    ranges: int = 0

    def add(self, event: Committed) -> None:
        self.records += event.records
        self.bytes += event.bytes
        self.commits += 1
        self.ranges += event.runs


class CopyInstruments:
    """Counters and gauges of one instance. Its own numbers begin with the process; gauges tell of the whole pipeline.

    Args:
        meter: Makes the instruments.
        pipeline: The pipeline; `metrics.prefix.assignment` begins the names.
        seconds_behind: Seconds by partition, called when metrics are read, in the reader's thread.
    """

    def __init__(
        self, meter: Meter, pipeline: Pipeline, seconds_behind: Callable[[Progress], Mapping[TopicPartition, float]]
    ) -> None:
        prefix = pipeline.metrics.prefix.assignment
        self._pipeline = pipeline.name
        self._seconds_behind = seconds_behind
        self._progress = Progress({}, 0.0)
        self._claimed: set[TopicPartition] = set()
        # Not counters of the SDK: those cost tens of microseconds a commit, and there may be hundreds a second.
        self._totals: defaultdict[TopicPartition, _Totals] = defaultdict(_Totals)
        self._generation: GenerationStarted | None = None

        def counter(name: str, unit: str, words: str, total: Callable[[_Totals], int]) -> None:
            meter.create_observable_counter(f"{prefix}{name}", [self._total_of_each(total)], unit, words)

        def gauge(name: str, unit: str, words: str, observe: _Observer) -> None:
            meter.create_observable_gauge(f"{prefix}{name}", [observe], unit, words)

        counter("records", "{record}", "Records copied and committed by this instance", lambda each: each.records)
        counter("bytes", "By", "Value bytes of these records", lambda each: each.bytes)
        counter("transactions", "{transaction}", "Commits of a partition by this instance", lambda each: each.commits)
        counter("offset_ranges", "{range}", "Offset ranges written to the mapping topic", lambda each: each.ranges)
        gauge("position", "{offset}", "Next source offset to copy", self._of_each(lambda each: each.position))
        gauge("source.end", "{offset}", "End of what can be read on the source", self._of_each(_end))
        gauge("lag", "{offset}", "Source offsets that could be copied now", self._of_each(_lag))
        gauge("lag.seconds", "s", "Age of the oldest record that is not copied yet", self._observe_seconds)
        gauge("partition.stopped", "{partition}", "1 where copying is stopped, with the code", self._observe_stops)
        gauge("topic.paused", "{topic}", "1 for a topic that is paused", self._observe_pauses)
        gauge("transport.partitions", "{partition}", "Partitions by how their records came", self._observe_forms)
        gauge("partitions", "{partition}", "Partitions that this instance has claimed", self._observe_claims)
        gauge("slots", "{slot}", "Slots of this instance's generation", self._observe_slots)
        gauge("generation", "{generation}", "Number of this instance's generation", self._observe_generation)

    def listen(self, event: Event) -> None:
        """Takes in an event; in the driver's thread."""
        match event:
            case Committed():
                self._totals[event.partition].add(event)
            case ProgressRead():
                self._progress = event.progress
            case GenerationStarted():
                self._generation, self._claimed = event, set()
            case PartitionClaimed():
                self._claimed = {*self._claimed, event.partition}
            case PartitionStopped():
                self._claimed = self._claimed - {event.partition}
            case HandedOver():
                self._claimed = self._claimed - event.partitions.keys()

    def _labels(self, tp: TopicPartition) -> Labels:
        return {"pipeline": self._pipeline, "topic": tp.topic, "partition": tp.partition}

    def _total_of_each(self, total: Callable[[_Totals], int]) -> _Observer:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            for tp, each in list(self._totals.items()):  # the driver's thread adds partitions meanwhile
                yield Observation(total(each), self._labels(tp))

        return observe

    def _of_each(self, value: Callable[[PartitionProgress], int | None]) -> _Observer:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            for tp, progress in self._progress.partitions.items():
                if (found := value(progress)) is not None:
                    yield Observation(found, self._labels(tp))

        return observe

    def _observe_seconds(self, _: CallbackOptions) -> Iterator[Observation]:
        for tp, seconds in self._seconds_behind(self._progress).items():
            yield Observation(seconds, self._labels(tp))

    def _observe_stops(self, _: CallbackOptions) -> Iterator[Observation]:
        for tp, progress in self._progress.partitions.items():
            code = {"code": progress.stopped.code} if progress.stopped else {}
            yield Observation(int(bool(code)), {**self._labels(tp), **code})

    def _observe_pauses(self, _: CallbackOptions) -> Iterator[Observation]:
        for topic in sorted({tp.topic for tp in self._progress.partitions}):
            yield Observation(int(topic in self._progress.paused), {"pipeline": self._pipeline, "topic": topic})

    def _observe_forms(self, _: CallbackOptions) -> Iterator[Observation]:
        # Only the form: its reason, which may name brokers and offsets, would make ever new series.
        forms = Counter(progress.form.partition(":")[0] for progress in self._progress.partitions.values())
        for form in ("batches", "records"):
            yield Observation(forms[form], {"pipeline": self._pipeline, "form": form})

    def _observe_claims(self, _: CallbackOptions) -> Iterator[Observation]:
        yield Observation(len(self._claimed), {"pipeline": self._pipeline})

    def _observe_slots(self, _: CallbackOptions) -> Iterator[Observation]:
        if self._generation is not None:
            yield Observation(self._generation.slots, {"pipeline": self._pipeline})

    def _observe_generation(self, _: CallbackOptions) -> Iterator[Observation]:
        if self._generation is not None:
            yield Observation(self._generation.generation, {"pipeline": self._pipeline})


def _end(progress: PartitionProgress) -> int | None:
    return progress.readable_end if progress.is_end_known else None


def _lag(progress: PartitionProgress) -> int | None:
    return progress.lag if progress.is_end_known else None
