"""What a reader of metrics finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, MetricsData

from k2k_assets.telemetry.distributions import Distributions, ReadsDistributions
from k2k_assets.telemetry.metering import ALL_SERIES

Labels = frozenset[tuple[str, Any]]


class _Reader(ReadsDistributions, InMemoryMetricReader):
    pass


class Reading:
    """A meter, and what a reader finds of its instruments.

    Args:
        pipeline: Name of the pipeline, a label of all of them.
    """

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._reader = _Reader()
        self._reader.distributions = self.distributions = Distributions()
        self.meter: Meter = MeterProvider([self._reader], shutdown_on_exit=False, views=[ALL_SERIES]).get_meter("test")

    def data(self) -> MetricsData:
        """What a reader finds."""
        data = self._reader.get_metrics_data()
        assert data is not None
        return data

    def found(self) -> Mapping[str, dict[Labels, float]]:
        """Values by name and labels, without that of the pipeline, which each has; of histograms the sum."""
        data = self._reader.get_metrics_data()
        found: dict[str, dict[Labels, float]] = {}
        for resource in data.resource_metrics if data else ():
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.data.data_points:
                    labels = dict(point.attributes or {})
                    assert labels.pop("pipeline") == self._pipeline
                    value = point.sum if isinstance(point, HistogramDataPoint) else point.value  # type: ignore[union-attr]
                    found.setdefault(metric.name, {})[frozenset(labels.items())] = value
        return found
