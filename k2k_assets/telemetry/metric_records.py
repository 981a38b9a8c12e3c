"""Metrics as records of a topic: JSON for people and programs. Pure.

```
key    orders-pipeline k2k.lag orders
value  {"time": 1795679177457, "pipeline": "orders-pipeline", "instance": "host:4711", "metric": "k2k.lag",
        "kind": "gauge", "unit": "{offset}", "topic": "orders", "points": [{"partition": 0, "value": 5}, ...]}
```

A record for each metric and topic, and for each `MOST_POINTS` points: one for all would pass the size that brokers
take. The value of a point of a histogram is an object with count, sum, bounds and buckets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.metrics.export import (
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    Sum,
)

MOST_POINTS = 2000
"""Most points in a record."""

_OWN = ("pipeline", "topic")
_KINDS: dict[type, str] = {Sum: "counter", Gauge: "gauge", Histogram: "histogram"}


def metric_records(data: MetricsData) -> Iterator[tuple[bytes, bytes]]:
    """Makes the records, key and value each."""
    for resource in data.resource_metrics:
        instance = resource.resource.attributes.get("service.instance.id")
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            yield from _records_of(metric, instance)


def _records_of(metric: Metric, instance: Any) -> Iterator[tuple[bytes, bytes]]:
    if not isinstance(metric.data, Sum | Gauge | Histogram):
        return
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    newest = 0
    for point in metric.data.data_points:
        labels = dict(point.attributes or {})
        place = str(labels.get("pipeline", "")), str(labels.get("topic", ""))
        more = {name: value for name, value in labels.items() if name not in _OWN}
        found[place].append({**more, "value": _value(point)})
        newest = max(newest, point.time_unix_nano)
    for (pipeline, topic), points in found.items():
        head = {
            "time": newest // 1_000_000,
            "pipeline": pipeline,
            "instance": instance,
            "metric": metric.name,
            "kind": _KINDS[type(metric.data)],
            "unit": metric.unit,
            **({"topic": topic} if topic else {}),
        }
        key = " ".join(filter(None, (pipeline, metric.name, topic)))
        for first in range(0, len(points), MOST_POINTS):
            yield key.encode(), json.dumps({**head, "points": points[first : first + MOST_POINTS]}).encode()


def _value(point: NumberDataPoint | HistogramDataPoint) -> Any:
    if isinstance(point, NumberDataPoint):
        return point.value
    return {
        "count": point.count,
        "sum": point.sum,
        "bounds": list(point.explicit_bounds),
        "buckets": list(point.bucket_counts),
    }
