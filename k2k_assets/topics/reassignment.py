"""Which brokers should hold partitions that have too few or too many replicas. Pure.

The client library cannot move replicas, and moving them may load a cluster for hours: so this is handed to
`kafka-reassign-partitions.sh`, which throttles it and shows how far it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any


def reassignment(
    factors: Mapping[str, int], replicas: Mapping[str, Sequence[Sequence[int]]], brokers: Sequence[int]
) -> dict[str, Any]:
    """The document for `kafka-reassign-partitions.sh --reassignment-json-file`.

    Replicas stay where they are, as far as the factor lets them, and the preferred leader stays the first one. A new
    replica goes to the broker that holds the fewest of these topics' replicas.

    Args:
        factors: Replication factor that topics have to have, at most the number of brokers.
        replicas: Brokers of each partition of these topics.
        brokers: All brokers.
    """
    load = Counter(dict.fromkeys(brokers, 0))
    load.update(broker for name in factors for partition in replicas[name] for broker in partition)
    moved = []
    for topic, factor in sorted(factors.items()):
        for partition, has in enumerate(replicas[topic]):
            wanted = list(has[:factor])
            for dropped in has[factor:]:
                load[dropped] -= 1
            while len(wanted) < factor and (free := sorted(set(brokers) - set(wanted))):
                wanted.append(min(free, key=lambda broker: load[broker]))
                load[wanted[-1]] += 1
            if wanted != list(has):
                moved.append({"topic": topic, "partition": partition, "replicas": wanted})
    return {"version": 1, "partitions": moved}
