"""The pipeline files of the measurements: one for each run, with control topics of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.lab import Lab
from k2k_assets.transport.librdkafka import producers
from k2k_assets.transport.librdkafka import source as librdkafka_source

LARGE, DEFAULT = 100_000, 1000
MASTER = "local[2]"
RECORDS, BATCHES, AUTO = "records", "batches", "auto"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run copies.

    Attributes:
        exactly_once: Or at least once; offset mapping is on in both.
        batch_size: `coordination.commit.batchSize`.
        fresh_workers: Whether each run gets new Python workers, so that memory of a run before does not count.
        client_statistics: `metrics.clientStatistics`; empty: none.
        bytes_per_second: `throttle.bytesPerSecond`; None: no limit.
        sections: More sections of the file; those that are there already get their keys.
        form: `transport.form`.
        codec: `compression.type` of the target's producer.
        keeps_headers: Whether headers are copied.
    """

    exactly_once: bool
    batch_size: int = DEFAULT
    fresh_workers: bool = False
    client_statistics: str = ""
    bytes_per_second: int | None = None
    sections: Mapping[str, Any] = field(default_factory=dict)
    form: str = RECORDS
    codec: str = "none"
    keeps_headers: bool = True

    @property
    def mode(self) -> str:
        """As tables name it."""
        return "exactly once" if self.exactly_once else "at least once"


def write_pipeline(lab: Lab, run: str, topic: str, settings: Settings) -> Path:
    """Writes the pipeline file of one run; JSON is YAML too.

    Args:
        lab: Where the clusters are.
        run: A name that no run had before: group, control topics and target topic are named after it.
        topic: Source topic.
        settings: How to copy.
    """
    on = "enabled"
    document: dict[str, Any] = {
        "name": run,
        "features": {
            "exactlyOnce": on if settings.exactly_once else "disabled",
            "offsetMapping": on,
            "headerReplication": on if settings.keeps_headers else "disabled",
            "keepRecordCreationTimestamp": on,
            "autoCreateTopics": on,
            "autoCreateControlTopics": on,
        },
        "source": {
            "kafka": {
                "common": {"bootstrap.servers": lab.sandbox.source_servers},
                "consumer": {"group.id": f"k2k.{run}"},
            }
        },
        "target": {
            "kafka": {
                "common": {"bootstrap.servers": lab.sandbox.target_servers},
                "producer": {"compression.type": settings.codec},
            }
        },
        "coordination": {
            "commit": {"topic": commit_topic(run), "batchSize": settings.batch_size},
            "assignment": {"topic": f"{run}.assignment"},
        },
        "offsetMapping": {"topic": f"{run}.mappings"},
        # The commit records of a run are read when it is over: none may be compacted away before.
        "topicCreation": {"control": {"commit": {"config": {"min.compaction.lag.ms": 3_600_000}}}},
        "replication": [
            {"source": {"topic": [topic]}},
            {"sink": {"topic": {"prefix": f"{run}."}, "partition": "source"}},
        ],
        "transport": {"form": settings.form},
        "metrics": {"clientStatistics": settings.client_statistics} if settings.client_statistics else {},
        "throttle": {"bytesPerSecond": settings.bytes_per_second} if settings.bytes_per_second else {},
        "spark": {
            "master": MASTER,
            "config": {"spark.python.worker.reuse": str(not settings.fresh_workers).lower()},
        },
    }
    for name, section in settings.sections.items():
        document[name] = {**document.get(name, {}), **section} if isinstance(section, dict) else section
    path = lab.folder / f"{run}.yaml"
    path.write_text(json.dumps(document, indent=1))
    return path


def commit_topic(run: str) -> str:
    """The commit topic of a run."""
    return f"{run}.commits"


def shown() -> list[str]:
    """All settings that matter, as lines."""
    producer = {**producers.PREFERRED, **producers.FIXED, "compression.type": "none"}
    consumer = {**librdkafka_source._PREFERRED, **librdkafka_source._FIXED}
    return [
        f"Spark {MASTER}; offset mapping, headers and timestamps on; batchTimeout 2 s, minCommitInterval 5 ms "
        "(defaults)",
        f"source consumer: {_words(consumer)}",
        f"target producer: {_words(producer)}",
    ]


def _words(settings: dict[str, object]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in sorted(settings.items()))
