"""A topic on both clusters that is copied by hand, right or wrong, and the verdicts of the checks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from k2k_assets.control.assignment_records import settings_key, settings_value
from k2k_assets.control.assignment_writing import write_record
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.mapping.index import update_index
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import Evidence, run_check
from k2k_assets.verification.verdict import Verdict
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, unique
from k2k_assets_tests.support.copies.hand_copy import HandCopy, hand_copy

# Not older than the brokers' retention, which would delete them in the middle of a test.
NOW = int(time.time() * 1000) - 60_000
RECORDS = [Record(b"k%d" % i, b"v%d" % i, [("h", b"%d" % i)], NOW + i) for i in range(10)]


@dataclass
class World:
    """A topic on both clusters, and a hand that copies it rightly or wrongly."""

    clusters: KafkaSandbox
    topic: str
    hand: HandCopy
    spark: SparkSession

    def source(self, records: list[Record] | None = None) -> list[int]:
        return self._write(self.clusters.source_servers, records)

    def target(self, records: list[Record] | None = None) -> list[int]:
        return self._write(self.clusters.target_servers, records)

    def _write(self, servers: str, records: list[Record] | None) -> list[int]:
        written = produce(servers, self.topic, RECORDS if records is None else records, partition=0)
        return [offset for _, offset in written]

    def mapped(self, *runs: tuple[int, int, int], end: int = 10) -> None:
        self.hand.mapping(self.topic, (0, end), runs)
        self.hand.commit(self.topic, end, records=end)

    def verdict(self, check: str) -> Verdict:
        return self.verdicts(check)[check]

    def verdicts(self, *checks: str) -> dict[str, Verdict]:
        hand = self.hand
        index = update_index(self.spark, hand.pipeline, hand.source, hand.target)
        evidence = Evidence(hand.pipeline, self.spark, index, hand.source, hand.target)
        return {check: run_check(check, evidence) for check in checks}


def worlds(
    clusters: KafkaSandbox, spark: SparkSession, folder: Path, names: Sequence[str], **sections: Any
) -> list[World]:
    """Topics of one pipeline, so that one evaluation judges all of them.

    Args:
        clusters: Both clusters.
        spark: The session.
        folder: For the file and the index.
        names: What their names begin with.
        sections: As of `write_pipeline`.
    """
    topics = [unique(name.replace("_", "-")) for name in names]
    for topic in topics:
        for servers in (clusters.source_servers, clusters.target_servers):
            create_topic(servers, topic)
    sections["features"] = {"headerReplication": "enabled", **sections.get("features", {})}
    hand = hand_copy(clusters, folder, *topics, **sections)
    return [World(clusters, topic, hand, spark) for topic in topics]


def noted(world: World, settings: CopySettings) -> CopySettings:
    """Notes settings as the driver does that copied under them."""
    pipeline = world.hand.pipeline
    write_record(pipeline, settings_key(pipeline.group, settings.fingerprint), settings_value(settings))
    return settings


def noted_alone(world: World) -> CopySettings:
    """Those of a copy to whose targets nobody else writes."""
    return noted(world, replace(CopySettings.of(world.hand.pipeline), alone=True))


def without_headers(records: Sequence[Record]) -> list[Record]:
    """The same records, without headers."""
    return [record._replace(headers=None) for record in records]
