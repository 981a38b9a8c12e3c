"""Metrics as records of a topic: JSON for people and programs. Pure.

```
key    orders-pipeline k2k.lag orders
value  {"time": 1795679177457, "pipeline": "orders-pipeline", "instance": "host:4711", "metric": "k2k.lag",
        "kind": "gauge", "unit": "{offset}", "topic": "orders", "points": [{"partition": 0, "value": 5}, ...]}
```

A record for each metric and topic: one for all would pass the size that brokers take.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.metrics.export import Gauge, Metric, MetricsData, Sum

_OWN = ("pipeline", "topic")


def metric_records(data: MetricsData) -> Iterator[tuple[bytes, bytes]]:
    """Makes the records, key and value each."""
    for resource in data.resource_metrics:
        instance = resource.resource.attributes.get("service.instance.id")
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            yield from _records_of(metric, instance)


def _records_of(metric: Metric, instance: Any) -> Iterator[tuple[bytes, bytes]]:
    if not isinstance(metric.data, Sum | Gauge):
        return
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    newest = 0
    for point in metric.data.data_points:
        labels = dict(point.attributes or {})
        place = str(labels.get("pipeline", "")), str(labels.get("topic", ""))
        more = {name: value for name, value in labels.items() if name not in _OWN}
        found[place].append({**more, "value": point.value})
        newest = max(newest, point.time_unix_nano)
    for (pipeline, topic), points in found.items():
        document = {
            "time": newest // 1_000_000,
            "pipeline": pipeline,
            "instance": instance,
            "metric": metric.name,
            "kind": "counter" if isinstance(metric.data, Sum) else "gauge",
            "unit": metric.unit,
            **({"topic": topic} if topic else {}),
            "points": points,
        }
        key = " ".join(filter(None, (pipeline, metric.name, topic)))
        yield key.encode(), json.dumps(document).encode()
