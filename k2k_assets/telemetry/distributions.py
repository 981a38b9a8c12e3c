"""Histograms that take many values at once, already counted.

A histogram of the SDK takes one value at a time, for seven microseconds of processor time, and slots that copy whole
batches commit hundreds of times a second. These are added to what a reader is given, which subclasses of it may do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricReader,
    MetricsData,
)

from k2k_assets.replication.slot_reports import Distribution

_Labels = tuple[tuple[str, str | int], ...]


class DistributionHistogram:
    """A histogram; its counts begin with the process.

    Args:
        name: Its name.
        unit: Of its values.
        words: What it is.
        bounds: Of its buckets, rising.
    """

    def __init__(self, name: str, unit: str, words: str, bounds: Sequence[float]) -> None:
        self._name, self._unit, self._words, self._bounds = name, unit, words, bounds
        self._began = time.time_ns()
        self._turn = threading.Lock()
        self._found: dict[_Labels, Distribution] = {}

    def add(self, values: Distribution, labels: Mapping[str, str | int]) -> None:
        """Adds values that are counted by the same bounds."""
        key = tuple(labels.items())
        with self._turn:
            before = self._found.get(key)
            self._found[key] = values if before is None else before.plus(values)

    def metric(self) -> Metric:
        """As a reader is given it."""
        with self._turn:
            found = dict(self._found)
        return Metric(
            self._name,
            self._words,
            self._unit,
            Histogram(list(self._points(found)), AggregationTemporality.CUMULATIVE),
        )

    def _points(self, found: Mapping[_Labels, Distribution]) -> Iterator[HistogramDataPoint]:
        now = time.time_ns()
        for labels, values in found.items():
            yield HistogramDataPoint(
                attributes=dict(labels),
                start_time_unix_nano=self._began,
                time_unix_nano=now,
                count=sum(values.counts),
                sum=values.seconds,
                bucket_counts=values.counts,
                explicit_bounds=self._bounds,
                min=None,  # type: ignore[arg-type]  # not known, and optional in the protocol
                max=None,  # type: ignore[arg-type]
            )


class Distributions:
    """The histograms of a program."""

    def __init__(self) -> None:
        self._all: list[DistributionHistogram] = []

    def create(self, name: str, unit: str, words: str, bounds: Sequence[float]) -> DistributionHistogram:
        """Makes one; see `DistributionHistogram`."""
        made = DistributionHistogram(name, unit, words, bounds)
        self._all.append(made)
        return made

    def added_to(self, data: MetricsData) -> MetricsData:
        """What a reader found, and these, as far as they have values, beside what is there of our own."""
        own = [metric for each in self._all if (metric := each.metric()).data.data_points]
        if not own or not data.resource_metrics:
            return data
        resource, *others = data.resource_metrics
        scope, *rest = resource.scope_metrics
        added = replace(resource, scope_metrics=[replace(scope, metrics=[*scope.metrics, *own]), *rest])
        return replace(data, resource_metrics=[added, *others])


class ReadsDistributions(MetricReader):
    """Lets a reader find these too; comes before the reader's class.

    Attributes:
        distributions: They.
    """

    distributions: Distributions | None = None

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **more: Any) -> None:
        found = self.distributions.added_to(metrics_data) if self.distributions else metrics_data
        super()._receive_metrics(found, timeout_millis, **more)  # type: ignore[safe-super]
