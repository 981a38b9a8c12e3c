"""The instruments that slots' reports feed: sessions that errors ended, commits, and statistics of Kafka clients."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.slot_reports import (
    AGE_BOUNDS,
    DURATION_BOUNDS,
    Commits,
    Greeting,
    Report,
    SessionEnded,
    Statistics,
)
from k2k_assets.telemetry.distributions import Distributions
from k2k_assets.transport.client_statistics import COUNTERS, GAUGES, ClientFigures, ClientKind

_UNITS = {"bytes": "By", "latency": "s", "time": "s"}
# Of two clients of a slot the slower one counts; all else is added.
_WORST = ("request.latency", "throttle.time")
_Slot = tuple[int, int]


class SlotInstruments:
    """Counters of reports; gauges of those slots that are connected.

    Args:
        meter: Makes the instruments.
        distributions: Make those of commits.
        pipeline: The pipeline; `metrics.prefix` begins the names.
    """

    def __init__(self, meter: Meter, distributions: Distributions, pipeline: Pipeline) -> None:
        prefix = pipeline.metrics.prefix
        self._pipeline = pipeline.name
        self._turn = threading.Lock()
        self._last: dict[tuple[_Slot, str], tuple[ClientKind, ClientFigures]] = {}
        self._restarts = meter.create_counter(
            f"{prefix.assignment}restarts", "{session}", "Sessions of slots that an error ended"
        )
        self._aborts = meter.create_counter(
            f"{prefix.assignment}aborts", "{transaction}", "Transactions given up, whose records are read again"
        )
        name, words = f"{prefix.assignment}commit.duration", "Duration of commits"
        self._durations = distributions.create(name, "s", words, DURATION_BOUNDS)
        name, words = f"{prefix.assignment}latency", "From the timestamp of a record on the source to its commit"
        self._latency = distributions.create(name, "s", words, AGE_BOUNDS)
        self._counters: dict[tuple[ClientKind, str], Callable[[float, dict[str, str | int]], None]] = {}
        if pipeline.metrics.client_statistics is None:
            return
        names: tuple[tuple[ClientKind, str], ...] = (
            ("consumer", prefix.source_consumer),
            ("producer", prefix.target_producer),
        )
        for kind, begin in names:
            for name in COUNTERS:
                counter = meter.create_counter(f"{begin}{name}", _unit(name), f"Of the slots' {kind}s")
                self._counters[kind, name] = counter.add
            for name in GAUGES:
                observe = self._observer(kind, name)
                meter.create_observable_gauge(f"{begin}{name}", [observe], _unit(name), f"Of the slots' {kind}s")

    def arrived(self, slot: Greeting) -> None:
        """A slot has connected: its counters begin, so that a rate sees their first step."""
        self._restarts.add(0, self._labels(slot.slot))
        self._aborts.add(0, self._labels(slot.slot))

    def reported(self, slot: Greeting, report: Report) -> None:
        """A slot has reported something."""
        labels = self._labels(slot.slot)
        if isinstance(report, SessionEnded):
            if report.error:
                self._restarts.add(1, labels)
                self._aborts.add(int(report.aborted), labels)
            return
        if isinstance(report, Commits):
            self._durations.add(report.durations, labels)
            for topic, ages in report.ages.items():
                self._latency.add(ages, {"pipeline": self._pipeline, "topic": topic})
        if isinstance(report, Statistics):
            self._count(slot, report, labels)

    def _count(self, slot: Greeting, report: Statistics, labels: dict[str, str | int]) -> None:
        at = (slot.generation, slot.slot), report.figures.client
        with self._turn:
            before = self._last.get(at)
            self._last[at] = report.of, report.figures
        for name, value in report.figures.counters.items():
            add = self._counters.get((report.of, name))
            if add is not None:
                add(max(0.0, value - (before[1].counters.get(name, 0.0) if before else 0.0)), labels)

    def gone(self, slot: Greeting) -> None:
        """A slot's connection has ended."""
        with self._turn:
            for at in [at for at in self._last if at[0] == (slot.generation, slot.slot)]:
                del self._last[at]

    def _observer(self, kind: ClientKind, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            found: dict[int, list[float]] = defaultdict(list)
            with self._turn:
                for ((_generation, slot), _client), (of, figures) in self._last.items():
                    if of == kind and name in figures.gauges:
                        found[slot].append(figures.gauges[name])
            for slot, values in found.items():
                yield Observation(max(values) if name in _WORST else sum(values), self._labels(slot))

        return observe

    def _labels(self, slot: int) -> dict[str, str | int]:
        return {"pipeline": self._pipeline, "slot": slot}


def _unit(name: str) -> str:
    return _UNITS.get(name.rpartition(".")[2], f"{{{name.rpartition('.')[2].removesuffix('s')}}}")
